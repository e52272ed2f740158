package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// install copies the program to a path. Under the name tar it is what `kubectl cp` calls.
func install(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("install takes one file: %w", errUsage)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	if err := os.WriteFile(args[0], program, 0o755); err != nil {
		return fmt.Errorf("writing the program: %w", err)
	}
	return nil
}

// archive does what `kubectl cp` asks of tar: "cf - PATH" and "xmf - -C FOLDER", with more options, which it ignores.
func (p process) archive(args []string) error {
	last := ""
	if len(args) > 0 {
		last = args[len(args)-1]
	}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.TrimLeft(arg, "-") == "cf" }) {
		return p.pack(last)
	}
	if at := slices.Index(args, "-C"); at < 0 || at+1 == len(args) {
		last = "."
	} else {
		last = args[at+1]
	}
	return unpack(os.Stdin, last)
}

// pack writes a file, or a folder with all that is in it.
func (p process) pack(root string) error {
	out := tar.NewWriter(p.out)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		header.Name = strings.TrimPrefix(path, "/")
		if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	})
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	return nil
}

// unpack writes the folders and regular files of an archive.
func unpack(from io.Reader, folder string) error {
	in := tar.NewReader(from)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
		path := filepath.Join(folder, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return fmt.Errorf("unpacking: %w", err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
		if err := os.WriteFile(path, content, header.FileInfo().Mode()); err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
	}
}
