// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func TestWorld_Network_IsItsOwn(t *testing.T) {
	g := NewWithT(t)
	if is, why := world.Isolated(); !is {
		t.Skipf("there is no network namespace here (%s); that all processes use loopback is tested by itself", why)
	}
	interfaces, err := net.Interfaces()
	g.Expect(err).ToNot(HaveOccurred())
	var up []string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			up = append(up, i.Name)
		}
	}
	g.Expect(up).To(ConsistOf("lo"))
}

// With a namespace or without: no process listens outside of loopback, or connects to an address outside.
func TestWorld_Connections_StayOnLoopback(t *testing.T) {
	g := NewWithT(t)
	w := theWorld(t)
	listening := 0
	for _, program := range []string{
		world.Etcd, world.APIServer, world.ControllerManager, world.Core, world.Bootstrap, world.ControlPlane, world.Infrastructure, world.Remedy,
	} {
		for _, s := range socketsOf(g, pidOf(g, w, program)) {
			if s.listens {
				listening++
			}
			if s.listens && cannotChoose(w, program, s.local.Port) {
				continue
			}
			g.Expect(s.local.IP.IsLoopback()).To(BeTrue(), "%s has a socket at %s", program, &s.local)
			g.Expect(s.listens || s.remote.IP.IsLoopback()).To(BeTrue(), "%s talks to %s", program, &s.remote)
		}
	}
	g.Expect(listening).To(BeNumerically(">=", 10), "or this test looks at the wrong processes")
}

// cannotChoose: upstream has no flag for these addresses. That is what the network namespace is for.
func cannotChoose(w *world.World, program string, port int) bool {
	switch program {
	case world.Infrastructure, world.Core, world.Bootstrap, world.ControlPlane:
		webhooks := slices.Contains(w.Process(program).Args, fmt.Sprintf("--webhook-port=%d", port))
		return webhooks || program == world.Infrastructure && port >= 19000
	}
	return false
}

// pidOf reads the process id that test/procgroup has written.
func pidOf(g Gomega, w *world.World, program string) string {
	folder := w.Dir
	if program == world.Etcd || program == world.APIServer {
		folder = filepath.Dir(w.Plane.Certificates)
	}
	pid, err := os.ReadFile(filepath.Join(folder, program+".pid"))
	g.Expect(err).ToNot(HaveOccurred())
	return strings.TrimSpace(string(pid))
}

type socket struct {
	local, remote net.TCPAddr
	listens       bool
}

// socketsOf are the TCP sockets of a process, by the kernel.
func socketsOf(g Gomega, pid string) []socket {
	var inodes []string
	files, err := filepath.Glob("/proc/" + pid + "/fd/*")
	g.Expect(err).ToNot(HaveOccurred())
	for _, file := range files {
		target, _ := os.Readlink(file)
		if inode, is := strings.CutPrefix(target, "socket:["); is {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	var found []socket
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile("/proc/" + pid + "/net/" + table)
		g.Expect(err).ToNot(HaveOccurred())
		for line := range bytes.Lines(content) {
			// sl, local, remote, state, three columns of queues and timers, uid, timeout, inode.
			columns := strings.Fields(string(line))
			if len(columns) < 10 || !slices.Contains(inodes, columns[9]) {
				continue
			}
			found = append(found, socket{local: address(g, columns[1]), remote: address(g, columns[2]), listens: columns[3] == "0A"})
		}
	}
	return found
}

// address reads the kernel's notation: words of four bytes, each in the order of the machine.
func address(g Gomega, text string) net.TCPAddr {
	words, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	g.Expect(err).ToNot(HaveOccurred())
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	var number int
	_, err = fmt.Sscanf(port, "%X", &number)
	g.Expect(err).ToNot(HaveOccurred())
	return net.TCPAddr{IP: net.IP(raw), Port: number}
}
