// Command pack makes dist/ what is published: it writes the manifest of the Go sources, sets modes, and writes the zip that Grafana
// installs. The same files give the same bytes.
package main

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	id       = "plexsphere-leader-datasource"
	dist     = "dist"
	manifest = "dist/go_plugin_build_manifest" // as the SDK's build targets write it
)

func main() {
	if err := pack(); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack() error {
	if err := writeManifest(); err != nil {
		return err
	}
	file, err := os.Create(id + ".zip")
	if err != nil {
		return err
	}
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(dist, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return add(archive, path)
	})
	if err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return file.Close()
}

// add sets the mode of a file, and puts it into the archive with a time that is always the same.
func add(archive *zip.Writer, path string) error {
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(filepath.Base(path), "gpx_") {
		mode = 0o755
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dist, path)
	if err != nil {
		return err
	}
	header := &zip.FileHeader{Name: id + "/" + filepath.ToSlash(name), Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(mode)
	writer, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = writer.Write(content)
	return err
}

// writeManifest lists the Go sources with their hashes.
func writeManifest() error {
	var lines strings.Builder
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&lines, "%x:%s\n", sha256.Sum256(content), filepath.ToSlash(path))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(manifest, []byte(lines.String()), 0o644)
}
