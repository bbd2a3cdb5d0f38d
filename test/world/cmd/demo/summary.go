// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"
)

// promised is the time after the deadline within which Remedy detects a fault.
const promised = time.Second

// result is a row of the table at the end.
type result struct {
	fault, check, detected, outcome string
	// late: Remedy has not detected it within the promised time.
	late bool
}

// result is the row of a fault that ended with a healthy target.
func (f *fault) result(name, check string, detected, healthy time.Time) result {
	after := detected.Sub(f.deadline)
	return result{
		fault: name, check: check, detected: seconds(after), outcome: fmt.Sprintf("healthy after %.1fs", healthy.Sub(f.began).Seconds()),
		late: strings.HasPrefix(check, "Remedy") && after >= promised,
	}
}

// summarize prints the table.
func (d *demonstration) summarize() {
	d.Heading("What was detected, and how fast")
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "WHAT BROKE\tMONITORED BY\tDETECTED AFTER\tOUTCOME")
	for _, r := range d.results {
		_, _ = fmt.Fprintln(w, strings.Join([]string{r.fault, r.check, r.detected, r.outcome}, "\t"))
	}
	_ = w.Flush()
	d.Lines(table.String())
	fmt.Print(`
DETECTED AFTER begins at the deadline, which is when the timeout of the check is over (for the connection, at the cut).
It ends when the remediation is requested, or when the status reports that it is blocked. OUTCOME begins at the fault.
`)
}

// keepsPromise fails if Remedy has detected a fault too late.
func (d *demonstration) keepsPromise() error {
	for _, r := range d.results {
		if r.late {
			return errors.Errorf("%s was detected after %s, and %s is promised", r.fault, r.detected, promised)
		}
	}
	return nil
}

// keep waits for the end of the 50 seconds after the reconnection, which are too long for the demo itself. Then it prints how to inspect
// what runs, and waits for Ctrl-C.
func (d *demonstration) keep(ctx context.Context) error {
	d.Print("Waiting until Remedy counts all workers as healthy: up to 50 seconds after the connection was restored.")
	if err := d.untilHealthy(ctx, workersPool); err != nil {
		return err
	}
	d.Print("The kubelets have reported: all three workers are healthy.")
	d.Heading("Everything keeps running until Ctrl-C")
	fmt.Printf("In another terminal, open a shell in which kubectl reaches the management cluster:\n\n  %s\n\n",
		d.world.Shell(filepath.Dir(d.plugin)))
	fmt.Printf("Then look around:\n\n")
	for _, line := range []string{
		"kubectl get cluster,machines", "kubectl get rmhc,rnhc -o wide", "kubectl describe rmhc workers", "kubectl remedy status -A",
		"kubectl remedy explain machine/NAME", "kubectl get events --field-selector=involvedObject.kind=MachineHealthCheck",
		"kubectl get rmhc workers -o yaml",
	} {
		fmt.Println("  " + line)
	}
	<-ctx.Done()
	return nil
}

// stop ends all processes. It can be called more than once.
func (d *demonstration) stop() {
	d.end()
	if d.world != nil {
		d.world.Stop()
	}
}

// capital begins a sentence.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
