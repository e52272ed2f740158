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

// entry is a renewed token in the manager's Secret. Its key is translate.TargetID of the target.
type entry struct {
	// Target is for people who look into the Secret.
	Target      string    `json:"target"`
	Fingerprint string    `json:"fingerprint"`
	Token       string    `json:"token"`
	Renewed     time.Time `json:"renewed"`
}

// store is the manager's Secret of renewed tokens. It is safe for concurrent use.
type store struct {
	client kubernetes.Interface
	name   types.NamespacedName
	watch  *watch.Secret
	shares shares
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

// get returns the entry of a target, or an empty one. An entry that cannot be read is empty.
func (s *store) get(id string) entry {
	var e entry
	data, err := s.data()
	if err != nil || json.Unmarshal(data[id], &e) != nil {
		return entry{}
	}
	return e
}

// read returns the entry of a target from the API server.
func (s *store) read(ctx context.Context, id string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	var e entry
	secret, err := s.client.CoreV1().Secrets(s.name.Namespace).Get(ctx, s.name.Name, metav1.GetOptions{})
	if err != nil {
		return e, fmt.Errorf("getting renewed tokens: %w", err)
	}
	if err := json.Unmarshal(secret.Data[id], &e); err != nil {
		return entry{}, fmt.Errorf("decoding a renewed token: %w", err)
	}
	return e, nil
}

// replaces returns the renewed token, and whether it is one of the kubeconfig's account and lives longer.
func (e entry) replaces(original credential, fingerprint string) (credential, bool) {
	if e.Fingerprint != fingerprint || !original.renewable() {
		return credential{}, false
	}
	renewed, err := renewedAt(e.Token, e.Renewed)
	if err != nil || renewed.account != original.account {
		return credential{}, false
	}
	return renewed, renewed.expires.After(original.expires)
}

// namespace returns the namespace of the target, or nothing for a ClusterTarget.
func (e entry) namespace() string {
	namespace, _, namespaced := strings.Cut(e.Target, "/")
	if !namespaced {
		return ""
	}
	return namespace
}

// put writes the entry of a target. It returns an error if the entry exceeds the share of a Target.
func (s *store) put(ctx context.Context, id string, e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding a token: %w", err)
	}
	data, err := s.data()
	if err != nil {
		return err
	}
	if err := s.shares.take(id, e.namespace(), int64(len(raw)), data); err != nil {
		return err
	}
	if err := s.patch(ctx, map[string]any{id: raw}); err != nil {
		s.shares.give(id)
		return err
	}
	return nil
}

// remove deletes the entries of targets.
func (s *store) remove(ctx context.Context, ids []string) error {
	none := map[string]any{}
	for _, id := range ids {
		none[id] = nil
	}
	if err := s.patch(ctx, none); err != nil {
		return err
	}
	s.shares.give(ids...)
	return nil
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
