// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
	"sigs.k8s.io/yaml"
)

// tiltCall is a call of one of Tilt's functions, with its arguments as Go values. Positional arguments are named "0", "1" and so on.
type tiltCall struct {
	function string
	args     map[string]any
}

func (c tiltCall) text(arg string) string { text, _ := c.args[arg].(string); return text }

func (c tiltCall) list(arg string) []string {
	values := asList(c.args[arg])
	texts := make([]string, 0, len(values))
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value))
	}
	return texts
}

func asList(value any) []any { list, _ := value.([]any); return list }

// tiltfile executes a Tiltfile without Tilt: it reads files below a folder, records what Tilt would build and apply, and runs no command.
type tiltfile struct {
	folder string
	// prepared is called in place of the command that writes the manifests of the providers.
	prepared func() error
	calls    []tiltCall
}

// blob is what Tilt's read_file and local return.
type blob string

func (b blob) String() string       { return string(b) }
func (blob) Type() string           { return "blob" }
func (blob) Freeze()                {}
func (b blob) Truth() starlark.Bool { return b != "" }
func (blob) Hash() (uint32, error)  { return 0, fmt.Errorf("a blob is not hashable") }
func (f *tiltfile) at(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.folder, p)
}

// fromStarlark returns a value as encoding/json would read it.
func fromStarlark(value starlark.Value) any {
	switch value := value.(type) {
	case starlark.NoneType:
		return nil
	case starlark.Bool:
		return bool(value)
	case starlark.String:
		return string(value)
	case blob:
		return string(value)
	case starlark.Int:
		number, _ := value.Int64()
		return float64(number)
	case *starlark.Dict:
		object := map[string]any{}
		for _, item := range value.Items() {
			key, _ := starlark.AsString(item[0])
			object[key] = fromStarlark(item[1])
		}
		return object
	case starlark.Iterable:
		list := []any{}
		for element := range starlark.Elements(value) {
			list = append(list, fromStarlark(element))
		}
		return list
	}
	return value.String()
}

func toStarlark(value any) starlark.Value {
	switch value := value.(type) {
	case nil:
		return starlark.None
	case bool:
		return starlark.Bool(value)
	case string:
		return starlark.String(value)
	case float64:
		if value == float64(int64(value)) {
			return starlark.MakeInt64(int64(value))
		}
		return starlark.Float(value)
	case []any:
		list := starlark.NewList(nil)
		for _, element := range value {
			_ = list.Append(toStarlark(element))
		}
		return list
	case map[string]any:
		dict := starlark.NewDict(len(value))
		for key, element := range value {
			_ = dict.SetKey(starlark.String(key), toStarlark(element))
		}
		return dict
	}
	panic(fmt.Sprintf("unexpected type %T", value))
}

type builtin = func(f *tiltfile, call tiltCall) (starlark.Value, error)

func (f *tiltfile) builtin(name string, does builtin) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, named []starlark.Tuple) (starlark.Value, error) {
		call := tiltCall{name, map[string]any{}}
		for i, arg := range args {
			call.args[fmt.Sprint(i)] = fromStarlark(arg)
		}
		for _, arg := range named {
			call.args[string(arg[0].(starlark.String))] = fromStarlark(arg[1])
		}
		return does(f, call)
	})
}

func record(f *tiltfile, call tiltCall) (starlark.Value, error) {
	f.calls = append(f.calls, call)
	return starlark.None, nil
}

// build returns a call as a value, because the Tiltfile passes what sync and run return to docker_build.
func build(_ *tiltfile, call tiltCall) (starlark.Value, error) {
	return toStarlark([]any{call.function, call.args["0"], call.args["1"]}), nil
}

func ignore(*tiltfile, tiltCall) (starlark.Value, error) { return starlark.None, nil }

func readYAML(f *tiltfile, call tiltCall) (starlark.Value, error) {
	content, err := os.ReadFile(f.at(call.text("0")))
	if os.IsNotExist(err) {
		return toStarlark(call.args["default"]), nil
	}
	if err != nil {
		return nil, err
	}
	var value any
	err = yaml.Unmarshal(content, &value)
	return toStarlark(value), err
}

func readFile(f *tiltfile, call tiltCall) (starlark.Value, error) {
	content, err := os.ReadFile(f.at(call.text("0")))
	return blob(content), err
}

func decodeYAMLStream(_ *tiltfile, call tiltCall) (starlark.Value, error) {
	objects := []any{}
	for document := range strings.SplitSeq(call.text("0"), "\n---\n") {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	return toStarlark(objects), nil
}

func listdir(f *tiltfile, call tiltCall) (starlark.Value, error) {
	entries, err := os.ReadDir(f.at(call.text("0")))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	paths := []any{}
	for _, entry := range entries {
		paths = append(paths, filepath.Join(f.at(call.text("0")), entry.Name()))
	}
	return toStarlark(paths), nil
}

// local answers as the commands do on a workstation with Docker, kubectl and a local registry.
func local(f *tiltfile, call tiltCall) (starlark.Value, error) {
	f.calls = append(f.calls, call)
	switch command := call.text("0"); {
	case strings.HasPrefix(command, "command -v kubectl"):
		return blob("/usr/bin/kubectl\n"), nil
	case strings.HasPrefix(command, "docker version"):
		return blob("Client: Docker Engine\n"), nil
	case command == "go env GOOS":
		return blob(runtime.GOOS + "\n"), nil
	case command == "go env GOARCH":
		return blob(runtime.GOARCH + "\n"), nil
	case strings.Contains(command, "get cm -n kube-public local-registry-hosting"):
		return blob("local-registry-hosting\n"), nil
	case strings.HasPrefix(command, "mkdir -p "):
		return blob(""), nil
	case strings.Contains(command, "tilt-prepare"):
		return blob(""), f.prepared()
	default:
		return nil, fmt.Errorf("unexpected command %q", command)
	}
}

func (f *tiltfile) predeclared() starlark.StringDict {
	names := starlark.StringDict{"TRIGGER_MODE_MANUAL": starlark.String("manual")}
	for name, does := range map[string]builtin{
		"version_settings": ignore, "allow_k8s_contexts": ignore, "trigger_mode": ignore, "default_registry": ignore,
		"local": local, "read_yaml": readYAML, "read_file": readFile, "listdir": listdir, "decode_yaml_stream": decodeYAMLStream,
		"sync": build, "run": build, "port_forward": build, "link": build,
		"local_resource": record, "docker_build": record, "custom_build": record, "k8s_yaml": record, "k8s_resource": record, "include": record,
	} {
		names[name] = f.builtin(name, does)
	}
	module := func(name string, members map[string]builtin) *starlarkstruct.Module {
		m := &starlarkstruct.Module{Name: name, Members: starlark.StringDict{}}
		for member, does := range members {
			m.Members[member] = f.builtin(member, does)
		}
		return m
	}
	names["shlex"] = module("shlex", map[string]builtin{"quote": func(_ *tiltfile, call tiltCall) (starlark.Value, error) {
		return starlark.String("'" + call.text("0") + "'"), nil
	}})
	files := module("path", map[string]builtin{
		"exists": func(f *tiltfile, call tiltCall) (starlark.Value, error) {
			_, err := os.Stat(f.at(call.text("0")))
			return starlark.Bool(err == nil), nil
		},
		"basename": func(_ *tiltfile, call tiltCall) (starlark.Value, error) {
			return starlark.String(path.Base(call.text("0"))), nil
		},
	})
	system := module("os", map[string]builtin{"putenv": ignore, "getenv": func(_ *tiltfile, call tiltCall) (starlark.Value, error) {
		return toStarlark(call.args["1"]), nil
	}})
	system.Members["path"] = files
	names["os"] = system
	return names
}

// execute runs the Tiltfile of the folder.
func (f *tiltfile) execute() error {
	extension := starlark.StringDict{}
	for _, name := range []string{"cmd_button", "text_input"} {
		extension[name] = f.builtin(name, record)
	}
	extension["location"] = starlark.None
	thread := &starlark.Thread{
		Name:  "Tiltfile",
		Print: func(*starlark.Thread, string) {},
		Load: func(_ *starlark.Thread, name string) (starlark.StringDict, error) {
			if name != "ext://uibutton" {
				return nil, fmt.Errorf("unexpected extension %s", name)
			}
			return extension, nil
		},
	}
	content, err := os.ReadFile(f.at("Tiltfile"))
	if err != nil {
		return err
	}
	options := &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
	_, err = starlark.ExecFileOptions(options, thread, "Tiltfile", content, f.predeclared())
	return err
}

// of returns the recorded calls of a function.
func (f *tiltfile) of(function string) []tiltCall {
	var calls []tiltCall
	for _, call := range f.calls {
		if call.function == function {
			calls = append(calls, call)
		}
	}
	return calls
}

// clusterAPI returns the folder of Cluster API's Go module, in the version that the tests build with.
func clusterAPI(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	g.Expect(err).ToNot(HaveOccurred())
	return strings.TrimSpace(string(out))
}
