package feedback

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// finished remembers the proxies that this process may have finished before its cache shows this. Meanwhile, a target
// that is set back may show an earlier status, which must not follow the last one. A write for such a proxy must be of
// the newest version. The zero value remembers none. It is safe for concurrent use.
type finished struct {
	mu      sync.Mutex                         // guards proxies
	proxies map[types.NamespacedName]types.UID // at most one of a name lives
}

// note remembers a proxy that is about to get a status, if that is its last one. It returns the version of the proxy
// that the status may be written to, or an empty string for any.
func (f *finished) note(proxy *corev1.Pod, status corev1.PodStatus) (version string) {
	key := client.ObjectKeyFromObject(proxy)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.proxies[key] == proxy.UID {
		return proxy.ResourceVersion
	}
	if translate.Finished(status.Phase) && !translate.Finished(proxy.Status.Phase) {
		if f.proxies == nil {
			f.proxies = map[types.NamespacedName]types.UID{}
		}
		f.proxies[key] = proxy.UID
	}
	return ""
}

// forget forgets a proxy that the cache shows as finished, or that is gone.
func (f *finished) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.proxies, key)
}
