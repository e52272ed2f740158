package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/util/cert"
)

// addresses is the line that the process of the simulated targets prints when it serves.
type addresses struct {
	Targets map[string]string `json:"targets"` // by name
	State   string            `json:"state"`
	CA      []byte            `json:"ca"`
}

// serveTargets is the process of the simulated targets. It serves one target for each file in the folder.
func serveTargets(ctx context.Context, dir string) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	log := newLog()
	found := addresses{Targets: map[string]string{}, CA: certificate}
	for _, file := range files {
		target := simulated{newStore(), log}
		if err := target.load(filepath.Join(dir, file.Name())); err != nil {
			return fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		log.stores = append(log.stores, target.store)
		if found.Targets[file.Name()], err = listen(ctx, target, &pair); err != nil {
			return err
		}
	}
	if found.State, err = listen(ctx, log, nil); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// content is the objects of a target, by resource.
type content map[string][]any

func (c content) write(file string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// load stores the content of a file.
func (s *store) load(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	c := map[string][]map[string]any{}
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	for resource, objects := range c {
		for _, o := range objects {
			if _, err := s.put(resource, nil, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// listen serves at a new address until the process ends, over HTTPS if there is a certificate.
func listen(ctx context.Context, handler http.Handler, certificate *tls.Certificate) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	if certificate == nil {
		go func() { _ = server.Serve(listener) }()
		return "http://" + listener.Addr().String(), nil
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return "https://" + listener.Addr().String(), nil
}

// targets is the process of the simulated targets, as its parent process has it.
type targets struct {
	found   addresses
	command *exec.Cmd
}

// startTargets starts the process of the simulated targets, and returns when it serves.
func startTargets(ctx context.Context, dir string) (*targets, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := &targets{command: exec.CommandContext(ctx, self, serve, filepath.Join(dir, "targets"))}
	t.command.Stderr = os.Stderr
	t.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := t.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &t.found)
	}
	if err != nil {
		t.stop()
		return nil, fmt.Errorf("reading the targets' addresses: %w", err)
	}
	return t, nil
}

func (t *targets) stop() {
	_ = t.command.Process.Kill()
	_ = t.command.Wait()
}

// state reads the summary of the requests to the targets.
func (t *targets) state(ctx context.Context) (state, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.found.State, nil)
	if err != nil {
		return state{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return state{}, err
	}
	defer response.Body.Close()
	var s state
	return s, json.NewDecoder(response.Body).Decode(&s)
}
