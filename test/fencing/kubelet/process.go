// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
)

const (
	// terminationLog is the environment variable with the path of the termination log: a process cannot have /dev/termination-log.
	terminationLog = "REMEDY_TERMINATION_LOG"
	// messageLimit is how much of the termination log a kubelet reports, and logLimit how much of the log instead of it.
	messageLimit, logLimit = 4096, 2048
)

// run is the first container of a Pod, as a process.
type run struct {
	node     string
	started  time.Time
	deadline time.Duration
	folder   string
	fallback bool
	cmd      *exec.Cmd
	log      bytes.Buffer
	done     chan struct{}
}

// startContainer starts the process, with the files of the volumes that it mounts.
func (c *Cluster) startContainer(ctx context.Context, pod *corev1.Pod) (*run, error) {
	container := &pod.Spec.Containers[0]
	if len(container.Command) == 0 {
		return nil, errors.Errorf("Pod %s/%s has no command, and images are not pulled here", pod.Namespace, pod.Name)
	}
	folder, err := os.MkdirTemp("", "remedy-pod-")
	if err != nil {
		return nil, errors.WithStack(err)
	}
	r := &run{
		node: pod.Spec.NodeName, started: time.Now(), folder: folder, done: make(chan struct{}),
		deadline: time.Duration(ptr.Deref(pod.Spec.ActiveDeadlineSeconds, 0)) * time.Second,
		fallback: container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
	}
	mounted := map[string]string{}
	for _, mount := range container.VolumeMounts {
		mounted[mount.MountPath] = filepath.Join(folder, mount.Name)
		if err := c.writeVolume(ctx, pod, mount.Name, mounted[mount.MountPath]); err != nil {
			return nil, err
		}
	}
	command := append(append([]string{}, container.Command...), container.Args...)
	r.cmd = exec.Command(command[0], command[1:]...) //nolint:noctx // it runs what the Pod requires, and ends with it.
	r.cmd.Env = []string{"PATH=" + bmc.Path(), "HOME=" + folder, terminationLog + "=" + filepath.Join(folder, "termination-log")}
	for _, env := range container.Env {
		value := env.Value
		if path, is := mounted[value]; is {
			value = path
		}
		r.cmd.Env = append(r.cmd.Env, env.Name+"="+value)
	}
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = folder, &r.log, &r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.WithStack(err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
		c.lock.Lock()
		defer c.lock.Unlock()
		c.logs[pod.Name] = r.log.String()
	}()
	return r, nil
}

// writeVolume writes the files of a projected volume. Another volume is an empty folder.
func (c *Cluster) writeVolume(ctx context.Context, pod *corev1.Pod, name, folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return errors.WithStack(err)
	}
	write := func(path string, content []byte) error {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return errors.WithStack(err)
		}
		return errors.WithStack(os.WriteFile(path, content, 0o600))
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Name != name || volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.DownwardAPI != nil {
				for _, item := range source.DownwardAPI.Items {
					annotation := strings.TrimSuffix(strings.TrimPrefix(item.FieldRef.FieldPath, "metadata.annotations['"), "']")
					if err := write(item.Path, []byte(pod.Annotations[annotation])); err != nil {
						return err
					}
				}
			}
			if source.Secret != nil {
				secret := &corev1.Secret{}
				err := c.api.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: source.Secret.Name}, secret)
				if client.IgnoreNotFound(err) != nil || err != nil && !ptr.Deref(source.Secret.Optional, false) {
					return errors.WithStack(err)
				}
				for _, item := range source.Secret.Items {
					content, has := secret.Data[item.Key]
					if !has {
						continue
					}
					if err := write(item.Path, content); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// kill ends the process and all that it has started, and waits for it.
func (r *run) kill() {
	if !r.ended() {
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		<-r.done
	}
	_ = os.RemoveAll(r.folder)
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *run) exitCode() int32 {
	if code := r.cmd.ProcessState.ExitCode(); code >= 0 {
		return int32(code) //nolint:gosec // an exit code has eight bits.
	}
	return killed
}

// message is the termination message of a container that has ended.
func (r *run) message() string {
	content, _ := os.ReadFile(filepath.Join(r.folder, "termination-log"))
	if len(content) == 0 && r.fallback && r.exitCode() != 0 {
		content = r.log.Bytes()
		content = content[max(0, len(content)-logLimit):]
	}
	return string(content[:min(len(content), messageLimit)])
}
