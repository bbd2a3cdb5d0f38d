// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Built is a built site.
type Built struct {
	// Dir has the files of the site.
	Dir string
	// Repository is the address of the repository, Checkout a checkout of it. A link to a file of the repository leads to a file of the
	// checkout.
	Repository, Checkout string
}

// Report is what Check has found.
type Report struct {
	Problems []string
	// Links is the number of links that lead to a page or a file of the site.
	Pages, Links int
	// Entries are the sections of the search index by their address.
	Entries map[string]string
}

// pages are the parsed pages of a site by their path, and problems with their links.
type pages struct {
	Built
	Report

	byPath  map[string]*page
	scripts []string
}

// page has the anchors and references of a page.
type page struct {
	anchors    map[string]bool
	references []reference
}

// reference is an address in a page. A browser loads some without a click.
type reference struct {
	address string
	loaded  bool
}

var styleAddress = regexp.MustCompile(`(?:url\(\s*["']?|@import\s+["'])([^"')\s]+)`)

// Check reads all pages, style sheets and the search index of a site.
func Check(built Built) (Report, error) {
	p := &pages{Built: built, Report: Report{Entries: map[string]string{}}, byPath: map[string]*page{}}
	err := filepath.WalkDir(built.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(built.Dir, file)
		if err != nil {
			return err
		}
		return p.read(filepath.ToSlash(name))
	})
	if err != nil {
		return Report{}, err
	}
	for name, read := range p.byPath {
		for _, r := range read.references {
			p.check(name, r)
		}
	}
	for _, script := range p.scripts {
		if err := p.checkSearchIndex(script); err != nil {
			return Report{}, err
		}
	}
	slices.Sort(p.Problems)
	return p.Report, nil
}

func (p *pages) read(name string) error {
	content, err := os.ReadFile(filepath.Join(p.Dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	switch path.Ext(name) {
	case ".html":
		root, err := html.Parse(strings.NewReader(string(content)))
		if err != nil {
			return fmt.Errorf("failed to parse %s: %w", name, err)
		}
		p.byPath[name] = readPage(root)
		p.Pages++
	case ".css":
		p.byPath[name] = &page{references: inStyle(string(content))}
	case ".js":
		if path.Base(name) == "search-index.js" {
			p.scripts = append(p.scripts, name)
		}
	}
	return nil
}

func inStyle(text string) []reference {
	matches := styleAddress.FindAllStringSubmatch(text, -1)
	all := make([]reference, 0, len(matches))
	for _, match := range matches {
		all = append(all, reference{address: match[1], loaded: true})
	}
	return all
}

func readPage(root *html.Node) *page {
	read := &page{anchors: map[string]bool{}}
	for node := range root.Descendants() {
		if node.Type == html.TextNode && node.Parent.Data == "style" {
			read.references = append(read.references, inStyle(node.Data)...)
		}
		if node.Type != html.ElementNode {
			continue
		}
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				read.anchors[attribute.Val] = true
			case "name":
				if node.Data == "a" {
					read.anchors[attribute.Val] = true
				}
			case "style":
				read.references = append(read.references, inStyle(attribute.Val)...)
			default:
				read.references = append(read.references, inAttribute(node.Data, attribute)...)
			}
		}
	}
	return read
}

// inAttribute returns the addresses of an attribute. A browser loads all but the targets of links.
func inAttribute(element string, attribute html.Attribute) []reference {
	switch attribute.Key {
	case "href", "xlink:href":
		return []reference{{address: attribute.Val, loaded: element != "a" && element != "area"}}
	case "src", "data", "poster", "action", "background":
		return []reference{{address: attribute.Val, loaded: true}}
	case "srcset":
		var all []reference
		for image := range strings.SplitSeq(attribute.Val, ",") {
			if words := strings.Fields(image); len(words) > 0 {
				all = append(all, reference{address: words[0], loaded: true})
			}
		}
		return all
	}
	return nil
}

func (p *pages) report(name, address, problem string) {
	p.Problems = append(p.Problems, fmt.Sprintf("%s: %s %s", name, address, problem))
}

func (p *pages) check(name string, r reference) {
	target, err := url.Parse(r.address)
	switch {
	case err != nil:
		p.report(name, r.address, "is not an address")
	case target.Scheme == "data":
	case target.Scheme != "" || target.Host != "":
		if r.loaded {
			p.report(name, r.address, "is loaded from another host")
		}
		if file, found := p.inRepository(target); found {
			if _, err := os.Stat(filepath.Join(p.Checkout, filepath.FromSlash(file))); err != nil {
				p.report(name, r.address, "is no file of the repository")
			}
		}
	default:
		p.Links++
		p.checkInternal(name, r.address, target)
	}
}

// inRepository returns the file of the repository that an address leads to.
func (p *pages) inRepository(target *url.URL) (string, bool) {
	address := url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path}
	rest, found := strings.CutPrefix(address.String(), p.Repository+"/")
	if !found {
		return "", false
	}
	for _, kind := range []string{"blob/main/", "tree/main/"} {
		if file, found := strings.CutPrefix(rest, kind); found {
			return file, true
		}
	}
	return "", false
}

func (p *pages) checkInternal(name, address string, target *url.URL) {
	file := name
	if strings.HasPrefix(target.Path, "/") {
		p.report(name, address, "is absolute: the site can be below a path of its host")
		return
	}
	if target.Path != "" {
		file = path.Join(path.Dir(name), target.Path)
	}
	info, err := os.Stat(filepath.Join(p.Dir, filepath.FromSlash(file)))
	if err == nil && info.IsDir() {
		file = path.Join(file, "index.html")
		_, err = os.Stat(filepath.Join(p.Dir, filepath.FromSlash(file)))
	}
	if err != nil {
		p.report(name, address, "does not exist")
		return
	}
	if to, isPage := p.byPath[file]; isPage && target.Fragment != "" && !to.anchors[target.Fragment] {
		p.report(name, address, "has no such anchor")
	}
}

// checkSearchIndex checks the addresses of the entries, which are relative to the root of the site.
func (p *pages) checkSearchIndex(name string) error {
	content, err := os.ReadFile(filepath.Join(p.Dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	text, begins := strings.CutPrefix(strings.TrimSpace(string(content)), "window.searchIndex = ")
	if !begins {
		return fmt.Errorf("%s does not begin with the variable", name)
	}
	var entries []struct{ URL, Section string }
	if err := json.Unmarshal([]byte(strings.TrimSuffix(text, ";")), &entries); err != nil {
		return fmt.Errorf("failed to read %s: %w", name, err)
	}
	for _, entry := range entries {
		target, err := url.Parse(entry.URL)
		if err != nil {
			return fmt.Errorf("failed to read %s: %w", name, err)
		}
		p.Entries[entry.URL] = entry.Section
		p.checkInternal(path.Base(name), entry.URL, target)
	}
	return nil
}
