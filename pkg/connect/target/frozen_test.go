package target

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

func TestNothingIsWrittenToATargetWithoutALeaseWhenAnotherManagerMayLead(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	errOver := errors.New("over")
	var over error
	f.options.Lead = func() error { return over }
	l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
	asIs := func(_ context.Context, _ types.NamespacedName, c *rest.Config, _ wire.Dial) (*rest.Config, error) {
		return c, nil
	}
	d, err := l.dial(t.Context(), f.refuser, asIs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, over = range []error{nil, errOver} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
			request, err := http.NewRequestWithContext(t.Context(), method, d.config.Host, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			before := f.asked.Load()
			answer, err := d.clients.Do(request)
			if err == nil {
				err = answer.Body.Close()
			}
			want := over == nil || method == http.MethodGet
			if arrived := f.asked.Load() > before; arrived != want || errors.Is(err, errOver) == want {
				t.Errorf("%s: it arrived: %t, want %t; error %v", method, arrived, want, err)
			}
		}
	}
}
