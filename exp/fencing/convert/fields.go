// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
)

const maxDuration = 8760 * time.Hour

// shortName is the name of a method or a remedy, and labelName that of a Secret or a ConfigMap that a Pod uses.
var (
	shortName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)
	labelName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// reader reads one object. It keeps the first error. Neither errors nor notes have values of ConfigMaps, which can be passwords.
type reader struct {
	manifests.Notes
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = errors.Errorf(format, args...)
	}
}

// fields are those of an object that were not read yet.
type fields struct {
	*reader
	path   string
	values map[string]any
}

// fields returns those of an object, or of a list of objects with a field each, as the document writes some.
func (r *reader) fields(path string, value any) fields {
	f := fields{reader: r, path: path, values: map[string]any{}}
	items, isList := value.([]any)
	if !isList && value != nil {
		items = []any{value}
	}
	for _, item := range items {
		object, is := item.(map[string]any)
		if !is {
			r.fail("%s must have fields", path)
		}
		for key := range object {
			if _, twice := f.values[key]; twice {
				r.fail("%s is listed twice: keep one of them", f.at(key))
			}
		}
		maps.Copy(f.values, object)
	}
	return f
}

func (f fields) at(key string) string { return strings.TrimPrefix(f.path+"."+key, ".") }

// take returns a field, and removes it.
func (f fields) take(key string) any {
	value := f.values[key]
	delete(f.values, key)
	return value
}

func (f fields) object(key string) fields { return f.fields(f.at(key), f.take(key)) }

// objects returns a list of objects.
func (f fields) objects(key string) []fields {
	value := f.take(key)
	items, is := value.([]any)
	if !is && value != nil {
		f.fail("%s must be a list", f.at(key))
	}
	all := make([]fields, 0, len(items))
	for i, item := range items {
		all = append(all, f.fields(fmt.Sprintf("%s[%d]", f.at(key), i), item))
	}
	return all
}

func (f fields) text(key string) string {
	value := f.take(key)
	text, is := value.(string)
	if !is && value != nil {
		f.fail("%s must be text", f.at(key))
	}
	return text
}

// name returns the name of a method or a remedy.
func (f fields) name(key string) string {
	name := f.text(key)
	if !shortName.MatchString(name) {
		f.fail("%s must be a name of at most 40 lower case letters, digits or '-', such as repair", f.at(key))
	}
	return name
}

func (f fields) duration(key string, least time.Duration) *remedyv1.Duration {
	d, err := time.ParseDuration(f.text(key))
	if err != nil || d < 0 || d > maxDuration || d%time.Millisecond != 0 {
		f.fail("%s must be a duration such as 5m, of at most a year", f.at(key))
	}
	if d < least {
		f.Add("%s is %s instead of %s, because a remedy needs time to act", f.at(key), least, d)
		d = least
	}
	return &remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// end notes the fields that were not read.
func (f fields) end() {
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		f.Add("%s has no counterpart and is omitted", f.at(key))
	}
}
