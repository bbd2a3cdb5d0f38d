// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults breaks what a controller talks to, at the one place where nothing has to be changed for it: the network. The client, the
// cache and the reconciler of a test are the real ones.
//
//   - A Process is one life of a controller. It records every write in order, fails a given one or loses its answer, crashes, and meets
//     trouble at random.
//   - Its Watches are held back, lag behind, are cut or expire: then the cache of the controller is what is stale.
//   - A Proxy is the way to an API server: it refuses, is a black hole, leaves connections half open, is slow, or flaps.
//   - EachWrite runs a scenario once for each write in it and for both kinds of crash, and compares the final states.
//
// Two leaders at the same time are two processes.
//
// Nothing here waits for a time to pass, but for a proxy that is slow by the clock it was given, and chance comes from a seed.
package faults
