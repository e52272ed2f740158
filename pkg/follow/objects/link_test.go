package objects

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestDue(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		record  copyRecord
		needed  bool
		unknown bool // which version there is
		want    bool
	}{
		"a new object that was never written": {
			record:  copyRecord{},
			needed:  true,
			unknown: true,
			want:    true,
		},
		"a new object that was written": {
			record:  copyRecord{version: "2", touched: now, written: now},
			unknown: true,
			want:    false,
		},
		"an object that was never written": {
			record: copyRecord{},
			needed: false,
			want:   true,
		},
		"an object that pods in the target need and we never wrote": {
			record: copyRecord{},
			needed: true,
			want:   true,
		},
		"an object that changed since it was written": {
			record: copyRecord{version: "1", touched: now, written: now},
			needed: true,
			want:   true,
		},
		"an unchanged object that pods in the target need": {
			record: copyRecord{version: "2", written: now.Add(1 - trustedFor)},
			needed: true,
			want:   false,
		},
		"an object written so long ago that its copy may be gone": {
			record: copyRecord{version: "2", written: now.Add(-trustedFor)},
			needed: true,
			want:   true,
		},
		"an object that no pod in the target needs, touched just now": {
			record: copyRecord{version: "2", touched: now.Add(1 - timeouts.TouchedFor), written: now},
			needed: false,
			want:   false,
		},
		"an object that no pod in the target needs, touched a while ago": {
			record: copyRecord{version: "2", touched: now.Add(-timeouts.TouchedFor), written: now},
			needed: false,
			want:   true,
		},
		"an object that no pod in the target needs, and was never marked as needed": {
			record: copyRecord{version: "2", written: now},
			needed: false,
			want:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			version := "2"
			if test.unknown {
				version = ""
			}
			if got := due(test.record, version, test.needed, now); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestRefusalOf(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	account := objectKey{"shop", needs.Ref{Resource: needs.ServiceAccounts, Name: "robot"}}
	for name, test := range map[string]struct {
		object  objectKey
		err     error
		refused bool
		want    string // part of the message
		class   apierror.Class
	}{
		"a write that succeeded": {object: secret("db")},
		"somebody else's object": {
			object: secret("db"), err: &writer.NotOursError{Kind: "Secret"}, refused: true,
			want: `Secret "db" exists there and does not come from this cluster, was made under another user name of ` +
				"it, or has lost the annotation multicluster.admiralty.io/followed-by: rename one, delete it, or use " +
				"it as it is with the annotation " +
				"multicluster.admiralty.io/use-existing: secrets/db",
		},
		"somebody else's account is the one to use": {
			object: account,
			err:    &writer.NotOursError{Kind: "ServiceAccount"},
		},
		"an account that may not be made": {
			account,
			apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "robot", errors.New("no")),
			true,
			`ServiceAccount "robot" is refused there`,
			apierror.Denied,
		},
		"a write that the API server forbids, in its own words": {
			secret("db"),
			fmt.Errorf("creating: %w", apierrors.NewForbidden(resource, "db", errors.New("exceeded quota: q"))),
			true,
			`Secret "db" is refused there: secrets "db" is forbidden: exceeded quota: q`,
			apierror.QuotaExceeded,
		},
		"rights that have not arrived": {
			secret("db"),
			apierrors.NewForbidden(resource, "db", errors.New(`User "c1" cannot create resource "secrets"`)),
			true,
			`User "c1" cannot create`,
			apierror.RightsMissing,
		},
		"a target without a policy": {
			object: secret("db"), err: &writer.UnguardedError{Namespace: "shop"}, refused: true,
			want: `Secret "db" is refused there: in namespace "shop", nothing shows which`,
		},
		"a namespace that does not exist": {
			secret("db"),
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"),
			true,
			`namespaces "shop" not found`,
			apierror.NamespaceMissing,
		},
		"an object that is too large": {
			secret("db"),
			apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
			true,
			"limit is",
			apierror.Invalid,
		},
		"a time-out is no refusal":           {secret("db"), apierrors.NewTimeoutError("slow", 1), false, "slow", 0},
		"a lost connection is no refusal":    {secret("db"), errors.New("EOF"), false, "EOF", 0},
		"expired credentials are no refusal": {secret("db"), apierrors.NewUnauthorized("who?"), false, "who?", 0},
		"a conflict is no refusal": {
			secret("db"),
			apierrors.NewConflict(resource, "db", errors.New("uid")),
			false,
			"uid",
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := refusalOf(test.object, test.err)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			var refused *needs.RefusedError
			if got := errors.As(err, &refused); got != test.refused {
				t.Fatalf("refused: got %t, want %t", got, test.refused)
			}
			if refused != nil && refused.Class != test.class {
				t.Errorf("class: got %d, want %d", refused.Class, test.class)
			}
		})
	}
}
