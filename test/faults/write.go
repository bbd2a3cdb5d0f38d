// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Write is a request that would change something.
type Write struct {
	// Cluster is whatever the test calls it; empty for the first one.
	Cluster string
	// Verb is create, update, patch, apply, delete or deletecollection.
	Verb                         string
	Group, Resource, Subresource string
	// Name of what is created under a generated name ends with a star.
	Namespace, Name string
	// Fault is what it has met; empty if nothing.
	Fault Fault
	// Code is the status of the answer, also of a lost answer; 0 if the server never got the request.
	Code int
}

// Landed reports whether the server has done it.
func (w Write) Landed() bool { return w.Code/100 == 2 }

// What it is about, without what became of it.
func (w Write) What() string {
	resource := schema.GroupResource{Group: w.Group, Resource: w.Resource}.String()
	if w.Subresource != "" {
		resource += "/" + w.Subresource
	}
	name := strings.Trim(w.Namespace+"/"+w.Name, "/")
	if w.Cluster != "" {
		name += " in " + w.Cluster
	}
	return strings.TrimSpace(w.Verb + " " + resource + " " + name)
}

// String includes the result.
func (w Write) String() string {
	text := w.What()
	if w.Fault != "" {
		text += fmt.Sprintf(" [%s]", w.Fault)
	}
	if w.Code != 0 && !w.Landed() {
		text += fmt.Sprintf(" (%d)", w.Code)
	}
	return text
}

// withoutObject is what writes of the same verb and resource have in common.
func (w Write) withoutObject() Write {
	w.Namespace, w.Name = "", ""
	return w
}

// Events are writes of events.
func Events(w Write) bool { return w.Resource == "events" }

// Leases are writes of Leases, also of those that are not about an election.
func Leases(w Write) bool { return w.Resource == "leases" }

// asWrite distinguishes writes from reads, and from reviews that are sent by POST.
func asWrite(cluster string, r *http.Request) (Write, bool, error) {
	verb := verbOf(r)
	if verb == "" {
		return Write{}, false, nil
	}
	w, ok := place(r.URL.Path)
	if !ok || w.Group == "authentication.k8s.io" || w.Group == "authorization.k8s.io" || w.Subresource == "token" {
		return Write{}, false, nil
	}
	w.Cluster, w.Verb = cluster, verb
	if verb == "delete" && w.Name == "" {
		w.Verb = "deletecollection"
	}
	if verb != "create" || w.Name != "" {
		return w, true, nil
	}
	name, err := nameIn(r)
	w.Name = name
	return w, true, err
}

func verbOf(r *http.Request) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// place finds out what a path is about. False if it is not the path of a resource.
func place(path string) (Write, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var w Write
	// An API server may be found below a path of its own.
	start := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })
	switch {
	case start < 0:
		return w, false
	case parts[start] == "api" && len(parts) > start+2:
		parts = parts[start+2:]
	case parts[start] == "apis" && len(parts) > start+3:
		w.Group, parts = parts[start+1], parts[start+3:]
	default:
		return w, false
	}
	// A Namespace is a resource, and what others are in.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		w.Namespace, parts = parts[1], parts[2:]
	}
	w.Resource = parts[0]
	if len(parts) > 1 {
		w.Name = parts[1]
	}
	if len(parts) > 2 {
		w.Subresource = strings.Join(parts[2:], "/")
	}
	return w, true
}

// nameIn is the name of what is created: it is in the object only.
func nameIn(r *http.Request) (string, error) {
	content, err := peek(r)
	if err != nil {
		return "", err
	}
	var object struct {
		Metadata struct{ Name, GenerateName string }
	}
	if json.Unmarshal(content, &object) != nil {
		// What is built in comes as protobuf.
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
		if err != nil {
			return "", nil //nolint:nilerr // an unknown encoding is no fault: the write is recorded without its name.
		}
		accessor, err := meta.Accessor(decoded)
		if err != nil {
			return "", nil //nolint:nilerr // what has no metadata has no name.
		}
		object.Metadata.Name, object.Metadata.GenerateName = accessor.GetName(), accessor.GetGenerateName()
	}
	if object.Metadata.Name == "" && object.Metadata.GenerateName != "" {
		return object.Metadata.GenerateName + "*", nil
	}
	return object.Metadata.Name, nil
}

// peek reads the body of a request, and leaves it as it was.
func peek(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	content, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(content))
	return content, errors.Wrap(err, "failed to read what is to be written")
}
