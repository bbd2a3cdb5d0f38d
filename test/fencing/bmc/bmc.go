// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmc runs machines with a management controller that real fence agents switch off and on: for each machine a process ipmi_sim, on
// an address of loopback of its own. A machine is nothing but its power: test/fencing/kubelet plays what runs on it. Start reading at Rack.
package bmc

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/procgroup"
)

// User and Password are those of each management controller.
const (
	User     = "admin"
	Password = "correct-horse"
)

// Missing returns an error if a program that fencing needs is not installed.
func Missing() error {
	var missing []string
	for _, program := range []string{"ipmi_sim", "ipmitool", "fence_ipmilan"} {
		if find(program) == "" {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.Errorf("%s not found: install fence-agents, openipmi and ipmitool (Debian: make deps-debian)", strings.Join(missing, ", "))
}

// Path is PATH with the folders that Debian leaves out for ordinary users. Fence agents are there.
func Path() string { return os.Getenv("PATH") + ":/usr/sbin:/sbin" }

// find returns the path of a program, or nothing.
func find(program string) string {
	for _, folder := range filepath.SplitList(Path()) {
		if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return path
		}
	}
	return ""
}

// Rack is a set of machines. Their processes end with Stop, or with this process.
type Rack struct {
	group *procgroup.Group

	lock     sync.Mutex
	machines []*Machine
}

// NewRack returns a rack without machines.
func NewRack() (*Rack, error) {
	if err := Missing(); err != nil {
		return nil, err
	}
	group, err := procgroup.New()
	return &Rack{group: group}, err
}

// Stop ends all machines.
func (r *Rack) Stop() {
	for _, m := range r.machines {
		m.kill()
		m.port.Release()
	}
	r.group.Release()
}

// Machine is a machine with power, and its management controller.
type Machine struct {
	Name string
	// IP and Port are where the management controller listens (UDP).
	IP, Port string

	// dir has the state of the machine. The chassis script reads and writes it.
	dir   string
	port  *controlplane.Port
	group *procgroup.Group
	cmd   *exec.Cmd
	stdin io.Closer
	log   bytes.Buffer
}

// chassis is what the management controller runs to read and set the power. What a file of the folder answers is a fault.
//
// To switch on a machine without power is a boot.
const chassis = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
[ -e slow ] && sleep "$(cat slow)"
case "$2 $3" in
"get power")
  if [ -e answers-off ]; then echo power:0; else echo "power:$(cat power)"; fi ;;
"set power")
  echo "$(date +%s.%N) $4" >> log
  [ -e slow-switch ] && sleep "$(cat slow-switch)"
  [ -e ignore-off ] && [ "$4" = 0 ] && exit 0
  [ -e neighbour ] && cd "$(cat neighbour)"
  [ "$4" = 1 ] && [ "$(cat power)" = 0 ] && echo boot >> boots
  echo "$4" > power.new && mv power.new power ;;
esac
exit 0
`

// configuration is that of ipmi_sim: its address, its user, and the chassis script.
const configuration = `name "%s"
set_working_mc 0x20
  startlan 1
    addr %s %s
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "%s 0x20"
  user 2 true "%s" "%s" admin 10 none md2 md5 straight
`

const emulation = `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
`

// Add adds a machine that has power, and starts its management controller.
func (r *Rack) Add(ctx context.Context, name string) (*Machine, error) {
	port, err := controlplane.TakePort()
	if err != nil {
		return nil, err
	}
	m := &Machine{
		Name: name, Port: port.String(), port: port, group: r.group, dir: filepath.Join(r.group.Dir, name),
		// A device is identified by its address, so no two machines have the same.
		IP: fmt.Sprintf("127.9.%d.%d", port.Number>>8, port.Number&0xff),
	}
	r.lock.Lock()
	r.machines = append(r.machines, m)
	r.lock.Unlock()
	script := filepath.Join(m.dir, "chassis")
	if err := os.MkdirAll(filepath.Join(m.dir, "state"), 0o700); err != nil {
		return nil, errors.WithStack(err)
	}
	for file, content := range map[string]string{
		"chassis": chassis, "power": "1\n", "boots": "boot\n", "log": "", "sim.emu": emulation,
		"lan.conf": fmt.Sprintf(configuration, name, m.IP, m.Port, script, User, Password),
	} {
		if err := os.WriteFile(filepath.Join(m.dir, file), []byte(content), 0o700); err != nil { //nolint:gosec // one of them is a program.
			return nil, errors.WithStack(err)
		}
	}
	return m, m.start(ctx)
}

// start starts the management controller, and waits until it listens.
func (m *Machine) start(ctx context.Context) error {
	program, err := m.group.Wrap("ipmi-"+m.Name, find("ipmi_sim"))
	if err != nil {
		return err
	}
	m.cmd = exec.Command(program, "-c", "lan.conf", "-f", "sim.emu", "-s", "state", "-n") //nolint:noctx // it ends with its rack.
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr = m.dir, &m.log, &m.log
	// It ends when its standard input does.
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return errors.WithStack(err)
	}
	if err := m.cmd.Start(); err != nil {
		return errors.Wrap(err, "ipmi_sim does not start")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if m.listens() {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Errorf("the management controller of %s does not listen: %s", m.Name, m.log.String())
		}
	}
}

// listens reports whether a socket has the address of the management controller. To try to take the address instead could take it from the
// management controller, which tries only once.
func (m *Machine) listens() bool {
	sockets, _ := os.ReadFile("/proc/net/udp")
	ip := net.ParseIP(m.IP).To4()
	// The address is printed in the byte order of the host.
	return strings.Contains(string(sockets), fmt.Sprintf(" %08X:%04X ", binary.NativeEndian.Uint32(ip), m.port.Number))
}

func (m *Machine) kill() {
	if m.cmd == nil || m.cmd.Process == nil || m.cmd.ProcessState != nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.group.Ended("ipmi-" + m.Name)
}

// Power is whether the machine has power, whatever its management controller answers.
func (m *Machine) Power() bool { return strings.TrimSpace(m.read("power")) == "1" }

// Boots counts how often it was switched on.
func (m *Machine) Boots() int { return strings.Count(m.read("boots"), "boot") }

// SetPower is a person at the switch. The management controller does not log it.
func (m *Machine) SetPower(on bool) error {
	if on && !m.Power() {
		if err := m.write("boots", m.read("boots")+"boot\n"); err != nil {
			return err
		}
	}
	return m.write("power", map[bool]string{true: "1\n", false: "0\n"}[on])
}

// Request is a request to the management controller to set the power.
type Request struct {
	At time.Time
	On bool
}

// Requests are all requests to set the power, the first one first, also those that changed nothing.
func (m *Machine) Requests() []Request {
	var all []Request
	for line := range strings.Lines(m.read("log")) {
		at, power, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseFloat(at, 64)
		if err != nil {
			continue
		}
		all = append(all, Request{At: time.Unix(0, int64(seconds*float64(time.Second))), On: power == "1"})
	}
	return all
}

// OffRequests counts the requests to switch off.
func (m *Machine) OffRequests() int { return len(m.Requests()) - m.OnRequests() }

// OnRequests counts the requests to switch on.
func (m *Machine) OnRequests() int {
	count := 0
	for _, request := range m.Requests() {
		if request.On {
			count++
		}
	}
	return count
}

func (m *Machine) read(file string) string {
	content, _ := os.ReadFile(filepath.Join(m.dir, file))
	return string(content)
}

// write replaces a file at once: the chassis script reads it at any time.
func (m *Machine) write(file, content string) error {
	path := filepath.Join(m.dir, file)
	if err := os.WriteFile(path+".written", []byte(content), 0o600); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(os.Rename(path+".written", path))
}
