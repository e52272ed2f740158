package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// progress returns what goes on if nothing goes wrong.
func (w *supply) progress() []action {
	var all []action
	for _, c := range w.underWay() {
		if !w.cutOff(c.by, c.to) {
			all = append(all, action{label: c.label, do: func() { c.serve(); w.answer(c) }})
		}
	}
	for _, l := range w.lagging() {
		all = append(all, action{label: l.name + " gets a change", do: l.next})
	}
	for _, s := range w.streams() {
		if s.behind() {
			all = append(all, action{label: s.name + " gets a change", do: s.next})
		}
	}
	for _, proxy := range list[*corev1.Pod](w.source.cluster) {
		all = append(all, w.ofProxy(proxy)...)
	}
	for _, k := range w.sites {
		for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
			all = append(all, w.ofChaperon(k, chaperon)...)
		}
	}
	return slices.Concat(all, w.endpoints(), w.protections(), w.engagements())
}

// lagging returns the caches that lag.
func (w *supply) lagging() []*lagging {
	all := slices.DeleteFunc(slices.Clone(w.manager.caches), func(l *lagging) bool {
		return w.cutOff(w.manager.process, l.from)
	})
	for _, k := range w.sites {
		all = append(all, k.collector.caches...)
	}
	return slices.DeleteFunc(all, func(l *lagging) bool { return l.ctx.Err() != nil || !l.behind() })
}

// streams returns the watches that are in reach.
func (w *supply) streams() []*stream {
	all := slices.Clone(w.source.open())
	for _, k := range w.sites {
		all = append(all, k.open()...)
	}
	return slices.DeleteFunc(all, func(s *stream) bool { return w.cutOff(s.by, s.from.cluster) })
}

func (w *supply) siteOf(e *supplied) *site {
	for k, engaged := range w.manager.engaged {
		if engaged == e && e.target.Reachable() {
			return k
		}
	}
	return nil
}

// ofProxy is what scheduling and feedback do with a proxy.
func (w *supply) ofProxy(proxy *corev1.Pod) []action {
	at, chaperon := w.chaperonOf(proxy)
	switch {
	case !w.manager.alive():
		return nil
	case proxy.Spec.NodeName != "":
		return w.ofBound(proxy, at, chaperon)
	case w.manager.placing(proxy.UID).running:
		return nil
	case chaperon == nil:
		return w.ofUnplaced(proxy)
	case !at.scheduled[chaperon.UID]:
		return nil
	}
	return one(proxy.Name+" is bound to "+at.name, func() {
		_ = w.source.bind(refOf(proxy), proxy.UID, translate.VirtualNodeName(types.NamespacedName{Name: at.name}))
	})
}

func one(label string, do func()) []action { return []action{{label: label, do: do}} }

func (w *supply) ofBound(proxy *corev1.Pod, at *site, chaperon *v1alpha1.PodChaperon) []action {
	switch {
	case chaperon == nil && w.boundTo(proxy).cut:
		return nil
	case chaperon == nil:
		return one(proxy.Name+" goes", func() { w.force(proxy) })
	case proxy.DeletionTimestamp != nil && !at.cut:
		return one("the delegate of "+proxy.Name+" ends in "+at.name, func() { at.remove(refOf(chaperon)) })
	}
	return nil
}

// ofUnplaced is what scheduling does with a proxy that has no PodChaperon.
func (w *supply) ofUnplaced(proxy *corev1.Pod) []action {
	p := w.manager.placing(proxy.UID)
	if !p.ensured.IsZero() && time.Since(p.ensured) < timeouts.Request {
		if k := w.siteOf(p.at); k != nil && !k.cut {
			return one("the PodChaperon of "+proxy.Name+" is made in "+k.name, func() { w.makeChaperon(k, proxy) })
		} else if k != nil {
			return nil
		}
	}
	if p.next.After(time.Now()) {
		return nil
	}
	var all []action
	for i := range w.sites {
		k := w.sites[(i+p.tries)%len(w.sites)]
		if e := w.manager.engaged[k]; e != nil && e.target.Reachable() {
			label := "the source places " + proxy.Name + " in " + k.name
			all = append(all, one(label, func() { w.manager.place(proxy, e) })...)
		}
	}
	return all
}

func (w *supply) chaperonOf(proxy *corev1.Pod) (*site, *v1alpha1.PodChaperon) {
	for _, k := range w.sites {
		for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
			if parentOf(chaperon) == proxy.UID {
				return k, chaperon
			}
		}
	}
	return nil, nil
}

func (w *supply) boundTo(proxy *corev1.Pod) *site {
	i := slices.IndexFunc(w.sites, func(k *site) bool { return proxy.Spec.NodeName == nodePrefix+k.name })
	return w.sites[i]
}

func (w *supply) force(proxy *corev1.Pod) {
	_ = w.source.delete(refOf(proxy), &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

func (w *supply) makeChaperon(k *site, proxy *corev1.Pod) {
	chaperon, err := translate.Chaperon(proxy, translate.Source{ClusterID: sourceID}, translate.Destination{
		Target: types.NamespacedName{Name: k.name},
	})
	if err != nil {
		panic(err)
	}
	w.checkPlaced(k, chaperon)
	if made, err := k.create(chaperon); err == nil {
		w.placed[made.GetUID()] = w.manager.placing(proxy.UID).began
	}
}

// ofChaperon is what the target does with a PodChaperon, and the source with one that has no proxy.
func (w *supply) ofChaperon(k *site, chaperon *v1alpha1.PodChaperon) []action {
	var all []action
	switch claim := k.claim(); {
	case k.scheduled[chaperon.UID]:
	case claimOf(&chaperon.Spec) == nil || claim != nil && claim.DeletionTimestamp == nil:
		all = append(all, action{label: fmt.Sprintf("%s: %s is scheduled", k.name, chaperon.Name), do: func() {
			k.scheduled[chaperon.UID] = true
		}})
	case !k.cut && w.manager.alive():
		all = append(all, action{label: fmt.Sprintf("%s is withdrawn from %s", chaperon.Name, k.name), do: func() {
			k.remove(refOf(chaperon))
		}})
	}
	if !k.running[chaperon.UID] && k.scheduled[chaperon.UID] && k.hasNeeds(chaperon) {
		all = append(all, action{label: fmt.Sprintf("%s: %s runs", k.name, chaperon.Name), do: func() {
			w.run(k, chaperon)
		}})
	}
	orphan := !slices.ContainsFunc(list[*corev1.Pod](w.source.cluster), func(proxy *corev1.Pod) bool {
		return proxy.UID == parentOf(chaperon)
	})
	if orphan && !k.cut && w.manager.alive() {
		all = append(all, action{label: "the orphan " + chaperon.Name + " goes from " + k.name, do: func() {
			k.remove(refOf(chaperon))
		}})
	}
	return all
}

// hasNeeds says whether the target has everything that a delegate needs to start.
func (k *site) hasNeeds(chaperon *v1alpha1.PodChaperon) bool {
	for r := range needsOf(&chaperon.Spec) {
		if o := k.objects[r]; o == nil || o.GetDeletionTimestamp() != nil {
			return false
		}
	}
	return true
}

// needsOf returns what a pod refers to.
func needsOf(spec *corev1.PodSpec) map[ref]bool {
	all := map[ref]bool{}
	add := func(kind, name string) {
		all[ref{kind, types.NamespacedName{Namespace: namespace, Name: name}}] = true
	}
	for _, v := range spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			add("ConfigMap", v.ConfigMap.Name)
		case v.Secret != nil:
			add("Secret", v.Secret.SecretName)
		case v.PersistentVolumeClaim != nil:
			add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
		}
	}
	if spec.ServiceAccountName != "" {
		add("ServiceAccount", spec.ServiceAccountName)
	}
	return all
}

// run has a delegate run, and write to its volume.
func (w *supply) run(k *site, chaperon *v1alpha1.PodChaperon) {
	k.running[chaperon.UID] = true
	if claim := k.claim(); claim != nil && claimOf(&chaperon.Spec) != nil {
		if claim.Status.Phase != corev1.ClaimBound {
			bound := claim.DeepCopy()
			bound.Status.Phase = corev1.ClaimBound
			k.put(bound)
		}
		w.write(k, claim, w.placed[chaperon.UID])
	}
}

// protections are claims that are deleted and that no pod uses any more.
func (w *supply) protections() []action {
	var all []action
	for _, s := range []*httpServer{w.source, w.sites[0].httpServer, w.sites[1].httpServer} {
		if claim := s.claim(); claim != nil && claim.DeletionTimestamp != nil && !w.usesClaim(s) {
			all = append(all, action{label: "the claim goes from " + s.name, do: func() { s.remove(refOf(claim)) }})
		}
	}
	return all
}

func (s *httpServer) claim() *corev1.PersistentVolumeClaim {
	claim, _ := s.objects[claimRef()].(*corev1.PersistentVolumeClaim)
	return claim
}

func claimRef() ref {
	return ref{"PersistentVolumeClaim", types.NamespacedName{Namespace: namespace, Name: dataClaim}}
}

// usesClaim says whether a pod that is bound, or a delegate that is scheduled, uses the claim of a cluster.
func (w *supply) usesClaim(s *httpServer) bool {
	for _, k := range w.sites {
		for _, c := range list[*v1alpha1.PodChaperon](s.cluster) {
			if k.scheduled[c.UID] && claimOf(&c.Spec) != nil {
				return true
			}
		}
	}
	return slices.ContainsFunc(list[*corev1.Pod](s.cluster), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" && claimOf(&pod.Spec) != nil
	})
}

// pods are those that users create.
func (w *supply) pods() []action {
	var all []action
	needed := [][]string{{settings, dataClaim}, {secretKey, dataClaim}, {settings, secretKey}}
	if w.serving {
		needed = [][]string{{account}, {account}, nil}
	}
	for i, refers := range needed {
		name := fmt.Sprintf("web-%d", i)
		if w.source.objects[ref{kindPod, types.NamespacedName{Namespace: namespace, Name: name}}] == nil {
			all = append(all, action{label: "a user creates " + name, do: func() {
				_, _ = w.source.create(needing(name, refers))
			}})
		}
	}
	return all
}

// podsThatGo are those that users delete.
func (w *supply) podsThatGo() []action {
	var all []action
	for _, now := range list[*corev1.Pod](w.source.cluster) {
		all = append(
			all,
			action{label: "a user deletes " + now.Name, do: func() {
				_ = w.source.delete(refOf(now), &client.DeleteOptions{})
			}},
			action{label: "a user deletes " + now.Name + " by force", do: func() { w.force(now) }},
		)
	}
	return all
}

// needing returns a pod that refers to objects.
func needing(name string, refers []string) *corev1.Pod {
	pod := newProxy(name, corev1.RestartPolicyAlways, false)
	for _, name := range refers {
		v := corev1.Volume{Name: name}
		switch name {
		case account:
			pod.Spec.ServiceAccountName = name
			continue
		case settings:
			v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		case secretKey:
			v.Secret = &corev1.SecretVolumeSource{SecretName: name}
		default:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
	}
	return pod
}

// passes let time pass. A cache of pods or PodChaperons lags for 40 s at most.
func (w *supply) passes() []action {
	var lag time.Duration
	lagging := w.lagging()
	for _, l := range lagging {
		lag = max(lag, l.lag())
	}
	var all []action
	for _, d := range []time.Duration{
		time.Second, 6 * time.Second, 11 * time.Second, 31 * time.Second, 125 * time.Second,
	} {
		if len(lagging) == 0 || lag+d <= longestLagOfPods {
			all = append(all, action{label: d.String() + " pass", do: func() { w.pass(d) }})
		}
	}
	return all
}

// longestLagOfPods is less than the time that package garbagecollection has left for watches.
const longestLagOfPods = 40 * time.Second

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
