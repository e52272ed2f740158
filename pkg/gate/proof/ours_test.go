package proof_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestOldLabelsCountForOldObjectsOnly(t *testing.T) {
	createdAt := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	key := types.NamespacedName{Name: "eu-west"}
	ours, hash := translate.TargetID(key), translate.TargetHash(key)
	theirs := hash + translate.TargetID(types.NamespacedName{Name: "us"})[10:] // A name that was chosen for its hash.
	for name, test := range map[string]struct {
		id, hash string
		age      time.Duration // before createdAt
		want     bool
	}{
		"a new object":                                 {id: ours, hash: hash, age: -time.Hour, want: true},
		"an object of a later version":                 {id: ours, age: -time.Hour, want: true},
		"an old object that was relabelled":            {id: ours, hash: hash, age: time.Hour, want: true},
		"an object of a target of the same hash":       {id: theirs, hash: hash, age: -time.Hour},
		"an old object of a target of the same hash":   {id: theirs, hash: hash, age: time.Hour},
		"an old object with the old label":             {hash: hash, age: time.Second, want: true},
		"an object of the key's second, the old label": {hash: hash},
		"an old object with a user's label of the key": {id: "7", hash: hash, age: time.Second, want: true},
		"a new object with a user's label of the key":  {id: "7", hash: hash, age: -time.Second},
		"a new object with the old label":              {hash: hash, age: -time.Second},
		"an old object of another target":              {hash: "0123456789", age: time.Hour},
		"an old object with a part of the hash":        {hash: hash[:9], age: time.Hour},
		"an old object with the ID as hash":            {hash: ours, age: time.Hour},
		"an old object without labels":                 {age: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(createdAt.Add(-test.age)), Labels: map[string]string{},
			}}
			if test.id != "" {
				object.Labels[v1alpha1.LabelTargetID] = test.id
			}
			if test.hash != "" {
				object.Labels[v1alpha1.LabelTargetHash] = test.hash
			}
			if got := proof.IsOurs(object, ours, createdAt); got != test.want {
				t.Errorf("IsOurs is %v, want %v", got, test.want)
			}
		})
	}
}
