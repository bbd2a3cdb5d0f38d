// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// Cache is a folder with one binary of each kind and, next to each, a receipt.
// A binary without a receipt, or whose content differs from its receipt, does not count as present.
type Cache struct {
	Dir string
}

// receipt is written last, after the binary has been run once and is in place.
type receipt struct {
	SHA256  string `json:"sha256"`
	Origin  string `json:"origin"`
	Version string `json:"version"`
}

// DefaultCache is the user's cache folder, outside of every checkout, so that a fresh clone finds what an older one built.
func DefaultCache() (Cache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, errors.Wrap(err, "no folder for caches: set HOME or XDG_CACHE_HOME")
	}
	return Cache{Dir: filepath.Join(base, "cluster-api-provider-remedy", "controlplane", key())}, nil
}

// Path returns where the binary is, and false if it is not there whole.
func (c Cache) Path(binary Binary) (string, bool) {
	path := filepath.Join(c.Dir, string(binary))
	written, err := os.ReadFile(c.receiptPath(binary))
	if err != nil {
		return path, false
	}
	var r receipt
	if err := json.Unmarshal(written, &r); err != nil {
		return path, false
	}
	sum, err := checksum(path)
	return path, err == nil && sum == r.SHA256
}

// Put takes a finished binary into the cache. It runs it first: what cannot print a fitting version is refused.
func (c Cache) Put(ctx context.Context, binary Binary, from, origin string) error {
	if err := os.Chmod(from, 0o755); err != nil { //nolint:gosec // it is a program, it has to be executable.
		return errors.Wrapf(err, "failed to make %s executable", binary)
	}
	version, err := runVersion(ctx, binary, from)
	if err != nil {
		return err
	}
	sum, err := checksum(from)
	if err != nil {
		return err
	}
	// The old receipt is removed before the old binary, so a receipt never describes another file.
	if err := os.Remove(c.receiptPath(binary)); err != nil && !os.IsNotExist(err) {
		return errors.Wrapf(err, "failed to replace the receipt of %s", binary)
	}
	if err := os.Rename(from, filepath.Join(c.Dir, string(binary))); err != nil {
		return errors.Wrapf(err, "failed to put %s into the cache", binary)
	}
	return c.writeReceipt(binary, receipt{SHA256: sum, Origin: origin, Version: version})
}

// TempDir makes a folder on the same file system as the cache, so that the last step of every build is a rename.
func (c Cache) TempDir() (string, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // a cache of public programs may be read by all.
		return "", errors.Wrap(err, "failed to make the cache folder")
	}
	dir, err := os.MkdirTemp(c.Dir, unfinished)
	return dir, errors.Wrap(err, "failed to make a folder for the build")
}

// unfinished is how the folders of builds under way begin.
const unfinished = "unfinished-"

// Lock keeps other processes from building the same binaries at the same time. It also removes what killed builds left behind.
// The lock ends with the process, however it ends.
func (c Cache) Lock(ctx context.Context, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // a cache of public programs may be read by all.
		return nil, errors.Wrap(err, "failed to make the cache folder")
	}
	file, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "failed to open the lock of the cache")
	}
	told := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, errors.Wrapf(err, "the file system of %s cannot lock files: set XDG_CACHE_HOME to a folder on another one", c.Dir)
		}
		if !told {
			waiting()
			told = true
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, errors.Wrap(ctx.Err(), "another process holds the lock of the cache")
		case <-time.After(200 * time.Millisecond):
		}
	}
	left, _ := filepath.Glob(filepath.Join(c.Dir, unfinished+"*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
	return func() { _ = file.Close() }, nil
}

func (c Cache) receiptPath(binary Binary) string {
	return filepath.Join(c.Dir, string(binary)+".receipt.json")
}

func (c Cache) writeReceipt(binary Binary, r receipt) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return errors.Wrap(err, "failed to write a receipt")
	}
	temporary := c.receiptPath(binary) + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return errors.Wrapf(err, "failed to write the receipt of %s", binary)
	}
	return errors.Wrapf(os.Rename(temporary, c.receiptPath(binary)), "failed to write the receipt of %s", binary)
}

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", errors.WithStack(err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", errors.Wrapf(err, "failed to read %s", path)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// versionLine is the line with the version; the first one, if none has it.
func versionLine(binary Binary, printed string) string {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	for _, line := range lines {
		if binary.fits(line) {
			return line
		}
	}
	return lines[0]
}

// runVersion proves that the binary runs, and in a version that fits.
func runVersion(ctx context.Context, binary Binary, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, binary.versionArgs()...).CombinedOutput()
	first := versionLine(binary, string(out))
	// A manager of Cluster API has no version flag: it logs its version, and then fails without a cluster. clusterctl fails without its
	// configuration.
	if err != nil && !binary.isClusterAPI() {
		return "", errors.Wrapf(err, "%s does not run (%s)", path, first)
	}
	if !binary.fits(string(out)) {
		return "", errors.Errorf("%s reports %q, which is not the required version (Kubernetes %s, etcd %s, Cluster API %s)",
			path, first, minor(KubernetesVersion), minor(EtcdVersion), ClusterAPIVersion)
	}
	return first, nil
}
