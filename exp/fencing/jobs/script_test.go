// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
)

// ran is what a container has done.
type ran struct {
	exitCode     int32
	message, log string
	// folder is its working folder.
	folder string
}

// replaced is how an entry of the environment begins that replaces the parameters.
const replaced = "PARAMETERS="

// runContainer does what a kubelet does with the container of an agent, in a shell: it has the files of its volume, which is in a folder of
// the test, and a termination log.
func runContainer(t testing.TB, g Gomega, shell []string, r jobs.Request, secret map[string]string, env ...string) ran {
	template := build(g, r).Spec.Template
	container, result := template.Spec.Containers[0], ran{folder: t.TempDir()}
	files, messages := t.TempDir(), filepath.Join(t.TempDir(), "termination-log")
	g.Expect(os.Mkdir(filepath.Join(files, "secrets"), 0o755)).To(Succeed())
	parameters := template.Annotations[jobs.ParametersAnnotation]
	if len(env) > 0 && strings.HasPrefix(env[0], replaced) {
		parameters, env = strings.TrimPrefix(env[0], replaced), env[1:]
	}
	g.Expect(os.WriteFile(filepath.Join(files, "parameters"), []byte(parameters), 0o600)).To(Succeed())
	for _, source := range template.Spec.Volumes[len(template.Spec.Volumes)-1].Projected.Sources {
		if source.Secret == nil {
			continue
		}
		for _, item := range source.Secret.Items {
			if value, has := secret[item.Key]; has {
				g.Expect(os.WriteFile(filepath.Join(files, item.Path), []byte(value), 0o600)).To(Succeed())
			}
		}
	}
	args := append(append(append([]string{}, shell[1:]...), container.Command[1:]...), container.Args...)
	command := exec.CommandContext(t.Context(), shell[0], args...)
	log := &bytes.Buffer{}
	command.Dir, command.Stdout, command.Stderr = result.folder, log, log
	command.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "REMEDY_DIR=" + files, "REMEDY_TERMINATION_LOG=" + messages}
	command.Env = append(command.Env, env...)
	if err := command.Run(); err != nil {
		g.Expect(err).To(BeAssignableToTypeOf(&exec.ExitError{}))
	}
	message, err := os.ReadFile(messages)
	if err != nil {
		g.Expect(os.IsNotExist(err)).To(BeTrue())
	}
	result.message, result.log = string(message), log.String()
	result.exitCode = int32(command.ProcessState.ExitCode())
	return result
}

// fakeAgent is an agent that keeps what it is given in its working folder, and logs and answers what the environment has.
func fakeAgent(t testing.TB, g Gomega) (path string) {
	folder := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(folder, "fence_fake"), []byte(`#!/bin/sh
printf '%s\n' "$#" >arguments
cat >input
env >environment
printf '%s' "$FAKE_LOG" >&2
printf '%s' "$FAKE_ANSWER"
exit "${FAKE_CODE:-0}"
`), 0o755)).To(Succeed())
	return "PATH=" + folder + ":" + os.Getenv("PATH")
}

func fakeRequest(action fencingv1.Action) jobs.Request {
	r := request(action)
	r.Method.Agent = "fence_fake"
	return r
}

func (r ran) file(g Gomega, name string) string {
	content, err := os.ReadFile(filepath.Join(r.folder, name))
	g.Expect(err).ToNot(HaveOccurred())
	return string(content)
}

// sh is the shell of a Job.
var sh = []string{"/bin/sh"}

// shells are those that images have as /bin/sh.
func shells() map[string][]string {
	all := map[string][]string{"sh": sh}
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err == nil {
			all[shell[0]] = shell
		}
	}
	return all
}

const canary = "s3cr3t-canary"

var credentials = map[string]string{"username": "admin", "password": canary + "\n", "other": "x"}

func TestScript_Agent_GetsInputAndGivesAnswer(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := fakeAgent(t, g)
			for _, action := range []fencingv1.Action{fencingv1.ActionOff, fencingv1.ActionOn, fencingv1.ActionStatus} {
				got := runContainer(t, g, shell, fakeRequest(action), credentials, path,
					"FAKE_ANSWER=Status: OFF\n", "FAKE_CODE=2", "input=exported", "value=exported")
				g.Expect(got.exitCode).To(Equal(int32(2)))
				g.Expect(got.message).To(Equal("Status: OFF\n"))
				g.Expect(got.log).To(BeEmpty())
				g.Expect(got.file(g, "arguments")).To(Equal("0\n"), "with an argument, an agent does not read its input")
				g.Expect(got.file(g, "input")).To(Equal("username=admin\npassword=" + canary +
					"\ncipher=3\nip=10.0.0.11\nlanplus=1\naction=" + string(action) + "\n"))
				g.Expect(got.file(g, "environment")).ToNot(ContainSubstring(canary))
			}
		})
	}
}

func TestScript_ExitCodes_ArePassedOn(t *testing.T) {
	g := NewWithT(t)
	path := fakeAgent(t, g)
	for _, code := range []int32{0, 1, 2, 3, 126, 255} {
		got := runContainer(t, g, sh, fakeRequest(fencingv1.ActionOff), credentials, path, fmt.Sprintf("FAKE_CODE=%d", code))
		g.Expect(got.exitCode).To(Equal(code))
	}
	got := runContainer(t, g, sh, fakeRequest(fencingv1.ActionOff), credentials)
	g.Expect(got.exitCode).To(Equal(int32(127)), "the image does not have the agent")
	got = runContainer(t, g, sh, fakeRequest(fencingv1.ActionOff), credentials, path, "REMEDY_TERMINATION_LOG=/dev/null/x")
	g.Expect(got.exitCode).ToNot(BeZero())
	g.Expect(filepath.Join(got.folder, "input")).ToNot(BeAnExistingFile(), "without a termination log, nothing is done")
}

// An agent logs a whole line of its input if it does not have the parameter.
func TestScript_Log_HasNoValues(t *testing.T) {
	for name, shell := range shells() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := runContainer(t, g, shell, fakeRequest(fencingv1.ActionOff), credentials, fakeAgent(t, g), "FAKE_CODE=1", "FAKE_LOG="+
				"WARNING:root:Parse error: Ignoring unknown option 'pass="+canary+"'\n\n"+
				"Ignoring unknown option 'pass=a=Ignoring unknown option "+canary+"'\n"+
				"Ignoring unknown option '"+canary+"'\n"+`  a\nb %s -n $(x) `+"\nFailed: Unable to obtain correct plug status")
			g.Expect(got.log).To(Equal("WARNING:root:Parse error: Ignoring unknown option 'pass\n\nIgnoring unknown option 'pass\nIgnoring \n" +
				`  a\nb %s -n $(x) ` + "\nFailed: Unable to obtain correct plug status\n"))
			g.Expect(got.exitCode).To(Equal(int32(1)))
		})
	}
}

func TestScript_IncompleteFiles_AgentDoesNotRun(t *testing.T) {
	for name, row := range map[string]struct {
		secret map[string]string
		env    []string
		log    string
	}{
		"no Secret": {log: "key username of the Secret is missing"},
		"no key":    {secret: map[string]string{"username": "admin"}, log: "key password of the Secret is missing"},
		"two lines": {
			secret: map[string]string{"username": "admin", "password": canary + "\naction=on"},
			log:    "key password of the Secret has more",
		},
		"carriage return": {
			secret: map[string]string{"username": "admin\r\n", "password": canary},
			log:    "key username of the Secret has more",
		},
		"blank":              {secret: map[string]string{"username": "admin", "password": canary + " "}, log: "blanks or quotes around it"},
		"quotes":             {secret: map[string]string{"username": "admin", "password": `"` + canary + `"`}, log: "blanks or quotes around it"},
		"no parameters":      {secret: credentials, env: []string{replaced + ""}, log: "the parameters have no action"},
		"no action":          {secret: credentials, env: []string{replaced + "ip=10.0.0.1\n"}, log: "the parameters have no action"},
		"action is not last": {secret: credentials, env: []string{replaced + "action=off\nip=10.0.0.1\n"}, log: "the parameters have no action"},
		"action of a value":  {secret: credentials, env: []string{replaced + "ip=action=off\n"}, log: "the parameters have no action"},
		"reboot":             {secret: credentials, env: []string{replaced + "action=reboot\n"}, log: "the parameters have no action"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := runContainer(t, g, sh, fakeRequest(fencingv1.ActionOff), row.secret, append(row.env, fakeAgent(t, g))...)
			g.Expect(got.exitCode).To(Equal(int32(1)))
			g.Expect(got.log).To(And(ContainSubstring(row.log), Not(ContainSubstring(canary))))
			g.Expect(got.message).To(BeEmpty())
			g.Expect(filepath.Join(got.folder, "input")).ToNot(BeAnExistingFile())
		})
	}
}

// Whatever a Secret has: nothing is executed, and the agent gets one line with exactly this value, or does not run.
func FuzzScript_AnySecret_IsOneLine(f *testing.F) {
	for _, value := range []string{
		"$(touch x)", "`touch x`", "; touch x", "a\ntouch x", "a\n\n", "%s%n\\n\\c", `"`, `""`, `"a`, `a"b'`, "-n", "*", "~",
		"$HOME", "#a", "a=b", "", " ", "\x00a", "\xff\xfe", "a\tb", "\x7f", "größe",
		"Ignoring unknown option", `\`, "'; touch x; '", "\"; touch x; \"", "${x:=y}", "!!",
	} {
		f.Add(value)
	}
	path := fakeAgent(f, NewWithT(f))
	f.Fuzz(func(t *testing.T, value string) {
		g := NewWithT(t)
		r := fakeRequest(fencingv1.ActionOff)
		r.Method.SecretKeys = []fencingv1.ParameterName{"password"}
		got := runContainer(t, g, sh, r, map[string]string{"password": value + canary}, path)
		want := strings.TrimRight(strings.ReplaceAll(value+canary, "\x00", ""), "\n")
		refused := strings.ContainsFunc(want, func(c rune) bool { return c < ' ' || c == '\x7f' }) || strings.HasPrefix(want, " ")
		g.Expect(filepath.Join(got.folder, "x")).ToNot(BeAnExistingFile())
		g.Expect(got.log + got.message).ToNot(ContainSubstring(canary))
		text, err := json.Marshal(build(g, r))
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(string(text)).ToNot(ContainSubstring(canary))
		if refused {
			g.Expect(got.exitCode).To(Equal(int32(1)))
			g.Expect(filepath.Join(got.folder, "input")).ToNot(BeAnExistingFile())
			return
		}
		g.Expect(got.exitCode).To(BeZero(), got.log)
		g.Expect(got.file(g, "input")).To(HavePrefix("password=" + want + "\ncipher=3\n"))
		g.Expect(got.file(g, "environment")).ToNot(ContainSubstring(canary))
	})
}
