// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world runs the real Cluster API as a test bench: a real etcd, kube-apiserver and kube-controller-manager, the managers of Cluster
// API's core, kubeadm bootstrap, kubeadm control plane and in-memory infrastructure as real processes, and the manager of Remedy next to them.
// What clusterctl installs is what runs: command lines, ServiceAccounts, roles and namespaces are read from the Deployments in the API
// server; only addresses, certificate folders and concurrency are changed, and nothing pulls an image or needs Docker.
//
// # Isolation
//
// The in-memory infrastructure listens on :19000 and from :20000 up, on all interfaces, without an option to change that: there can be one in a
// network namespace. So the whole test program runs itself again in a namespace of its own (Main does it for tests, Isolate for other
// programs), before it starts anything. The API server, the managers, the clients of the test and the kubectl that it calls all inherit it,
// nothing can reach the network, and any number of such programs can run at once. Root gets a network namespace, another user a user
// namespace with a network namespace in it. Where the kernel allows neither, the program prints that and continues without, and Start prints it
// if another world holds the ports: then one world at a time fits on the machine. All processes use loopback also there, apart from
// the ports whose address upstream does not let one choose: the in-memory infrastructure's, and the webhooks of Cluster API's managers. One
// program has one in-memory infrastructure at a time; a second management cluster in it starts with Options.WithoutInfrastructure.
//
// # Nothing is left behind
//
// Every process is in a group (test/procgroup): it ends with the program, and its folder is removed, also after Ctrl-C or SIGKILL.
//
// # What is thin
//
// The in-memory API servers have no Leases, no server-side apply and no status subresource of Nodes, and lose what was in them when their
// process restarts or moves (MoveTo). World.Workload makes a workload cluster with a real API server instead: its machines are puppets, and
// so is the remediator that can live in it (InstallRemediations). No garbage collection and no node controller run there, nor do nodes
// heartbeat by themselves (HeartbeatAll): the test does what it needs.
//
// # Where to begin
//
// Start, then World.Cluster or World.Workload. What can go wrong: Cluster.SetNodeCondition, DeleteNode, Link (cut, silent, slow),
// StopAPIServer, Workload.HoldBoots, World.Kill and Restart, Process.Freeze, and FailAtWrite. StartStandby starts a second
// manager of Remedy. MoveTo moves clusters to another management cluster. UninstallRemedy and InstallRemedy remove the provider Remedy and
// install it again, Release and UpgradeRemedy install another version of it, RunClusterctl runs the program clusterctl, and
// StopWithDeployment plays the kubelet of its manager. World.Nodes are Nodes of the management cluster itself.
package world
