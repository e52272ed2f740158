package simulation

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func (s *httpServer) service() *corev1.Service {
	service, _ := s.objects[refTo(kindService, serviceName)].(*corev1.Service)
	return service
}

func (s *httpServer) ingress() *networkingv1.Ingress {
	ingress, _ := s.objects[refTo(kindIngress, ingressName)].(*networkingv1.Ingress)
	return ingress
}

// ofServices are what users of the source do with a Service and an Ingress.
func (w *supply) ofServices() []action {
	var all []action
	if !w.serving {
		return nil
	}
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	if now := w.source.service(); now == nil {
		add("a user creates the Service", func() { _, _ = w.source.create(w.newService(false)) })
		add("a user creates the Service, headless", func() { _, _ = w.source.create(w.newService(true)) })
	} else {
		add("a user changes the Service", func() {
			changed := now.DeepCopy()
			changed.Spec.Ports = w.newService(false).Spec.Ports
			w.source.put(changed)
		})
		add("a user changes where the Service goes", func() {
			changed := now.DeepCopy()
			if _, is := changed.Annotations[v1alpha1.AnnotationGlobal]; is {
				changed.Annotations = nil
			} else {
				changed.Annotations = map[string]string{v1alpha1.AnnotationGlobal: "true"}
			}
			w.source.put(changed)
		})
		add("a user deletes the Service", func() { w.source.remove(refOf(now)) })
	}
	if now := w.source.ingress(); now == nil {
		add("a user creates the Ingress", func() { _, _ = w.source.create(w.newIngress()) })
	} else {
		add("a user changes the Ingress", func() {
			changed := now.DeepCopy()
			changed.Spec = w.newIngress().Spec
			w.source.put(changed)
		})
		add("a user deletes the Ingress", func() { w.source.remove(refOf(now)) })
	}
	return all
}

// touched are the objects of a target with which somebody there meddles.
func (w *supply) touched(k *site) []ref {
	if !w.serving {
		return append(w.refs(), claimRef())
	}
	all := append(w.refs(), refTo(kindService, serviceName), refTo(kindIngress, ingressName))
	for _, slice := range list[*discoveryv1.EndpointSlice](k.cluster) {
		all = append(all, refOf(slice))
	}
	return all
}

// restored is the deletion of a copy that the source watches: it makes the copy again.
func (w *supply) restored(k *site, r ref) action {
	return action{label: fmt.Sprintf("somebody deletes the %s in %s", r.kind, k.name), do: func() { k.remove(r) }}
}

// endpoints is what the source's controller of EndpointSlices does.
func (w *supply) endpoints() []action {
	r := refTo(kindSlice, serviceName+"-abcde")
	now, _ := w.source.objects[r].(*discoveryv1.EndpointSlice)
	wanted := w.wantedEndpoints(r.Name)
	switch {
	case wanted == nil && now == nil:
		return nil
	case wanted == nil:
		return one("the source's endpoints go", func() { w.source.remove(r) })
	case now == nil:
		return one("the source gets endpoints", func() { _, _ = w.source.create(wanted) })
	case equality.Semantic.DeepEqual(now.Endpoints, wanted.Endpoints):
		return nil
	}
	return one("the source's endpoints change", func() {
		changed := now.DeepCopy()
		changed.Endpoints = wanted.Endpoints
		w.source.put(changed)
	})
}

// wantedEndpoints returns the endpoints that the Service of the source has, or nil without a Service.
func (w *supply) wantedEndpoints(name string) *discoveryv1.EndpointSlice {
	if w.source.service() == nil {
		return nil
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metaOf(name), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{
		discoveryv1.LabelServiceName: serviceName, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
	}
	for _, proxy := range list[*corev1.Pod](w.source.cluster) {
		at, chaperon := w.chaperonOf(proxy)
		if proxy.Spec.NodeName == "" || chaperon == nil || !at.running[chaperon.UID] {
			continue
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{string(chaperon.UID)}, NodeName: ptr.To(proxy.Spec.NodeName),
			TargetRef: &corev1.ObjectReference{Kind: kindPod, Name: proxy.Name},
		})
	}
	return slice
}

// mayDelete says whether the source may delete a copy. That of an object that pods refer to is only replaced, if it is
// immutable.
func mayDelete(o client.Object) bool {
	switch o.(type) {
	case *corev1.ConfigMap, *corev1.Secret, *corev1.ServiceAccount:
		return immutable(o)
	default:
		return true
	}
}

// serves says whether the Service must be in a target. A target needs the Service if it has pods of the source, and
// the Service has any.
func (w *supply) serves(k *site) bool {
	service := w.source.service()
	if service == nil || service.Annotations[v1alpha1.AnnotationGlobal] != "" {
		return service != nil
	}
	return len(list[*v1alpha1.PodChaperon](k.cluster)) > 0 && len(w.wantedEndpoints("").Endpoints) > 0
}

// mayStay says whether a copy of a Service without pods may stay in a target, because its clients are there.
func (w *supply) mayStay(k *site) bool { return len(list[*v1alpha1.PodChaperon](k.cluster)) > 0 }

// certifies says whether the Ingress of a source in a target names a Secret. It may be somebody's own by now.
func (k *site) certifies(source string, r ref) bool {
	ingress := k.ingress()
	return ingress != nil && ingress.Labels[v1alpha1.LabelParentClusterID] == source && r.Name == secretKey
}

// refusesIngress says whether the source tries again and again to copy the Ingress to a target. Each time, it writes
// the Secret first.
func (w *supply) refusesIngress(k *site) bool {
	return w.serving && w.source.ingress() != nil && w.meddled(k)
}

// meddled says whether somebody in a target meddled with the Service, its endpoints, the Ingress or its Secret.
func (w *supply) meddled(k *site) bool {
	for what := range w.strange {
		if strings.HasPrefix(what, k.name+"/") && what != k.name+"/"+account {
			return true
		}
	}
	return false
}

// unsettledServices says what is wrong with the copies of a Service and an Ingress, and with endpoints.
func (w *supply) unsettledServices(k *site) error {
	for _, r := range []ref{refTo(kindService, serviceName), refTo(kindIngress, ingressName)} {
		if err := w.unsettledServed(k, r); err != nil {
			return err
		}
	}
	return w.unsettledEndpoints(k)
}

func (w *supply) unsettledServed(k *site, r ref) error {
	original, made := w.source.objects[r], k.objects[r]
	wanted := original != nil && w.serves(k)
	switch {
	case made != nil && isCopyOf("other", made):
		return fmt.Errorf("nobody needs the %s of another source in %s", r.kind, k.name)
	case wanted && w.unreported(k, r):
		return fmt.Errorf("no event says that the %s in %s is not ours", r.kind, k.name)
	case w.meddled(k), !wanted && (made == nil || original != nil && w.mayStay(k)):
		return nil
	case !wanted:
		return fmt.Errorf("nobody needs the %s in %s", r.kind, k.name)
	case made == nil:
		return fmt.Errorf("%s lacks the %s", k.name, r.kind)
	case !isCopyOf(sourceID, made):
		return fmt.Errorf("the %s in %s lacks the marks of a copy", r.kind, k.name)
	case dataOf(made) != dataOf(original):
		return fmt.Errorf("the %s in %s is not the same as its original", r.kind, k.name)
	default:
		return nil
	}
}

// unreported says whether an object stands in the way of a copy, and no event was about that. An Ingress follows only
// where its Service does.
func (w *supply) unreported(k *site, r ref) bool {
	made, service := k.objects[r], k.service()
	follows := r.kind == kindService || service != nil && isCopyOf(sourceID, service)
	if made == nil || isCopyOf(sourceID, made) || !follows {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.objected[k.name+"/"+r.kind]
}

func (w *supply) unsettledEndpoints(k *site) error {
	is, wanted := k.copiedEndpoints(), map[string]bool{}
	if service := k.service(); len(is) > 0 && (service == nil || !isCopyOf(sourceID, service)) {
		return fmt.Errorf("%s has endpoints of a Service that is not ours", k.name)
	}
	if w.meddled(k) {
		return nil
	}
	if w.serves(k) {
		for _, endpoint := range w.wantedEndpoints("").Endpoints {
			if *endpoint.NodeName != nodePrefix+k.name {
				wanted[endpoint.Addresses[0]] = true
			}
		}
	}
	if !maps.Equal(is, wanted) {
		return fmt.Errorf("%s has the endpoints %v, and not %v", k.name, is, wanted)
	}
	return nil
}

// copiedEndpoints returns the addresses that the source wrote to a target, and that nobody has made their own.
func (k *site) copiedEndpoints() map[string]bool {
	all := map[string]bool{}
	for _, slice := range list[*discoveryv1.EndpointSlice](k.cluster) {
		if !isCopyOf(sourceID, slice) {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			all[endpoint.Addresses[0]] = true
		}
	}
	return all
}
