package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// entry is a renewed token in the manager's Secret. A target has one for its kubeconfig, and others for those that it
// had before: see keyOf.
type entry struct {
	// Target is for people who look into the Secret.
	Target      string    `json:"target"`
	Fingerprint string    `json:"fingerprint"`
	Token       string    `json:"token"`
	Renewed     time.Time `json:"renewed"`
}

// keyOf returns the key of an entry: the ID of the target, and a part of the fingerprint, which is hexadecimal.
func keyOf(id, fingerprint string) string { return id + "." + fingerprint[:min(len(fingerprint), 16)] }

// targetOf returns the ID of the target in a key.
func targetOf(key string) string {
	id, _, _ := strings.Cut(key, ".")
	return id
}

// store is the manager's Secret of renewed tokens. It is safe for concurrent use.
type store struct {
	client kubernetes.Interface
	name   types.NamespacedName
	watch  *watch.Secret
}

// newStore returns a store, which calls changed after each change of the Secret.
func newStore(client kubernetes.Interface, name types.NamespacedName, changed func()) *store {
	return &store{client: client, name: name, watch: watch.NewSecret(client, name, changed)}
}

// run watches the Secret until ctx ends.
func (s *store) run(ctx context.Context) { s.watch.Run(ctx) }

// known says whether the Secret has been read, or cannot be read for want of the right.
func (s *store) known() bool { return s.watch.Known() || apierrors.IsForbidden(s.watch.Err()) }

// data returns the data of the Secret, as last seen.
func (s *store) data() (map[string][]byte, error) {
	if !s.watch.Known() {
		return nil, errors.New("the manager may not list and watch it; helm upgrade gives it the right")
	}
	secret := s.watch.Last()
	if secret == nil {
		return nil, errors.New("it does not exist; helm upgrade creates it, and an empty Secret of that name does, too")
	}
	return secret.Data, nil
}

// get returns the entry of a key, or an empty one. An entry that cannot be read is empty.
func (s *store) get(key string) entry {
	var e entry
	data, err := s.data()
	if err != nil || json.Unmarshal(data[key], &e) != nil {
		return entry{}
	}
	return e
}

// has says whether there is an entry of a target.
func (s *store) has(id string) bool {
	data, _ := s.data()
	for key := range data {
		if targetOf(key) == id {
			return true
		}
	}
	return false
}

// read returns the entry of a key from the API server.
func (s *store) read(ctx context.Context, key string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	var e entry
	secret, err := s.client.CoreV1().Secrets(s.name.Namespace).Get(ctx, s.name.Name, metav1.GetOptions{})
	if err != nil {
		return e, fmt.Errorf("getting renewed tokens: %w", err)
	}
	if err := json.Unmarshal(secret.Data[key], &e); err != nil {
		return entry{}, fmt.Errorf("decoding a renewed token: %w", err)
	}
	return e, nil
}

// replaces returns the renewed token, and whether it is one of the kubeconfig's account and lives at least as long, by
// the target's clock.
func (e entry) replaces(original credential, fingerprint string) (credential, bool) {
	if e.Fingerprint != fingerprint || !original.renewable() {
		return credential{}, false
	}
	renewed, err := renewedAt(e.Token, e.Renewed)
	if err != nil || renewed.account != original.account {
		return credential{}, false
	}
	return renewed, !renewed.ends.Before(original.ends)
}

// put writes an entry.
func (s *store) put(ctx context.Context, key string, e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding a token: %w", err)
	}
	return s.patch(ctx, map[string]any{key: raw})
}

// remove deletes entries.
func (s *store) remove(ctx context.Context, keys []string) error {
	none := map[string]any{}
	for _, key := range keys {
		none[key] = nil
	}
	return s.patch(ctx, none)
}

func (s *store) patch(ctx context.Context, data map[string]any) error {
	if _, err := s.data(); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	_, err = s.client.CoreV1().Secrets(s.name.Namespace).Patch(
		ctx, s.name.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner},
	)
	if apierrors.IsForbidden(err) {
		return errors.New("the manager may not patch it; helm upgrade gives it the right")
	}
	return err
}
