package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const requestTimeout = 10 * time.Second

// StatusError is the answer of an API server that refused a request. The errors of Client wrap it.
type StatusError struct {
	Code    int
	Message string
}

// Error implements error.
func (e StatusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.Code, e.Message)
}

// Credentials are the files with which a Client authenticates itself and the server.
type Credentials struct {
	Authority, Cert, Key string
}

// Client talks to one API server. It ignores proxy settings.
type Client struct {
	server string
	http   *http.Client
}

// NewClient returns a Client for the API server at a URL.
func NewClient(server string, with Credentials) (*Client, error) {
	authority, err := os.ReadFile(with.Authority)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	cert, err := tls.LoadX509KeyPair(with.Cert, with.Key)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	return &Client{server: server, http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// Get reads the object at a path into the variable that into points to, unless into is nil.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// Create posts an object to the path of its collection.
func (c *Client) Create(ctx context.Context, path string, object any) error {
	return c.do(ctx, http.MethodPost, path, object, nil)
}

// Delete deletes the object at a path.
func (c *Client) Delete(ctx context.Context, path string) error {
	return c.do(ctx, http.MethodDelete, path, nil, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, content)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking the API server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusBadRequest {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		refused := StatusError{response.StatusCode, string(message)}
		return fmt.Errorf("asking the API server for %s %s: %w", method, path, refused)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, response.Body)
	} else {
		err = json.NewDecoder(response.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("reading the API server's answer to %s %s: %w", method, path, err)
	}
	return nil
}
