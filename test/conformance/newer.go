package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// newerField is a field of pods that Kubernetes 1.36 does not have, or has disabled.
type newerField struct {
	// name is the path for readers, and path the JSONPath at which a pod has the field.
	name, path string
	// since says what Kubernetes 1.36 and 1.37 make of it.
	since string
	set   func(*corev1.PodSpec)
}

// Outcomes of a field. Another outcome is a refusal, with its message.
const (
	droppedBySource = "The source's API server drops it, as for plain pods."
	hasIt           = "The delegate has it."
	shownAsDropped  = "The target drops it, and the proxy shows this: condition `Fields`, event `FieldsDropped`."
	swallowed       = "**The target drops it, and nobody says so.**"
)

// newerFields need these feature gates in the newer cluster. hack/skew.sh sets them.
func newerFields() []newerField {
	const alpha = "1.37, alpha: enabled in this run"
	const enabled = "1.37; in 1.36 its feature gate is off"
	projected := func(source corev1.VolumeProjection) func(*corev1.PodSpec) {
		return volumeOf(corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}},
		})
	}
	configMap := &corev1.ConfigMapVolumeSource{Optional: new(true), DefaultUser: new(int64(7))}
	configMap.Name = "missing"
	return []newerField{
		{
			"volumes.projected.sources.podCertificate",
			volumePath("projected.sources[0].podCertificate.signerName"), enabled,
			projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{
				SignerName: "example.com/signer", KeyType: "ED25519", CredentialBundlePath: "bundle.pem",
			}}),
		},
		{
			"volumes.projected.sources.clusterTrustBundle",
			volumePath("projected.sources[0].clusterTrustBundle.path"), enabled,
			projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
				SignerName: new("example.com/signer"), LabelSelector: &metav1.LabelSelector{}, Path: "trust.pem",
				Optional: new(true),
			}}),
		},
		{
			"volumes.emptyDir.mode", volumePath("emptyDir.mode"), alpha,
			volumeOf(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Mode: new(int32(0o700))}}),
		},
		{
			"volumes.configMap.defaultUser", volumePath("configMap.defaultUser"), alpha,
			volumeOf(corev1.VolumeSource{ConfigMap: configMap}),
		},
		{
			"containers.volumeMounts.bindMountOptions",
			`{.spec.containers[0].volumeMounts[?(@.mountPath=="/new")].bindMountOptions}`, alpha,
			func(spec *corev1.PodSpec) {
				volumeOf(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})(spec)
				spec.Containers[0].VolumeMounts[0].BindMountOptions = []string{"noexec"}
			},
		},
		{
			"containers.readinessProbe.httpGet.protocol",
			"{.spec.containers[0].readinessProbe.httpGet.protocol}", alpha,
			func(spec *corev1.PodSpec) {
				spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{
						Path: "/healthz", Port: intstr.FromInt32(8080), Protocol: new(corev1.HTTPProtocolHTTP2),
					},
				}}
			},
		},
		{
			"containers.readinessProbe.grpc.mode", "{.spec.containers[0].readinessProbe.grpc.mode}", alpha,
			func(spec *corev1.PodSpec) {
				spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					GRPC: &corev1.GRPCAction{Port: 8080, Mode: new(corev1.GRPCProbeModeTLS)},
				}}
			},
		},
	}
}

// volumeOf gives a pod a volume, which its container mounts.
func volumeOf(source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{Name: "new", VolumeSource: source}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "new", MountPath: "/new"}}
	}
}

func volumePath(field string) string { return `{.spec.volumes[?(@.name=="new")].` + field + "}" }

// tryNewer creates an elected pod with each field, and returns what becomes of the fields, by name.
func (l *lab) tryNewer(ctx context.Context, newer []newerField) (map[string]string, error) {
	_, elected, err := l.sides(ctx, "newer")
	if err != nil {
		return nil, err
	}
	outcomes := map[string]string{}
	for i, field := range newer {
		outcome, err := l.try(ctx, elected, field, fmt.Sprintf("pod-%d", i))
		if err != nil {
			return nil, fmt.Errorf("trying %s: %w", field.name, err)
		}
		l.say("%-45s %s", field.name, outcome)
		outcomes[field.name] = outcome
	}
	return outcomes, nil
}

// try creates an elected pod with one field, and looks at the pod, its delegate and its status.
func (l *lab) try(ctx context.Context, s *side, field newerField, name string) (string, error) {
	pod := newPod(name)
	field.set(&pod.Spec)
	err := s.create(ctx, pod)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return "The source refuses the pod: " + s.normal.text(err.Error()), nil
	}
	if err != nil {
		return "", err
	}
	if has, err := hasField(pod, field.path); err != nil || !has {
		return droppedBySource, err
	}
	delegate, pending, err := l.awaitDelegate(ctx, s, pod)
	if err != nil || pending != "" {
		return pending, err
	}
	if has, err := hasField(delegate, field.path); err != nil || has {
		return hasIt, err
	}
	err = until(ctx, agreeWithin, func(ctx context.Context) error { return s.showsDropped(ctx, name) })
	if err != nil {
		l.say("%s: %v", field.name, err)
		return swallowed, nil
	}
	return shownAsDropped, nil
}

func hasField(pod *corev1.Pod, path string) (bool, error) {
	t, err := treeOf(pod)
	if err != nil {
		return false, err
	}
	value, err := find(t, path)
	return value != "", err
}

// awaitDelegate waits until a proxy has a delegate, or the scheduler finds no target for it.
func (l *lab) awaitDelegate(ctx context.Context, s *side, proxy *corev1.Pod) (
	delegate *corev1.Pod, pending string, err error,
) {
	err = s.await(ctx, "the delegate", func(ctx context.Context) error {
		found, err := l.delegateOf(ctx, s.namespace, proxy)
		if err == nil {
			delegate = found
			return nil
		}
		now, seeErr := s.pod(ctx, proxy.Name)
		if seeErr != nil {
			return seeErr
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				pending = "The pod is shown to wait: " + s.normal.text(c.Message)
				return nil
			}
		}
		return err
	})
	return delegate, pending, err
}

// delegateOf finds the delegate of a proxy in the target.
func (l *lab) delegateOf(ctx context.Context, namespace string, proxy *corev1.Pod) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := l.target.List(ctx, list, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelParentUID: string(proxy.UID)}); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("%d delegates of %s", len(list.Items), proxy.Name)
	}
	return &list.Items[0], nil
}

// showsDropped returns an error unless the proxy has the condition and the event.
func (s *side) showsDropped(ctx context.Context, name string) error {
	pod, err := s.pod(ctx, name)
	if err != nil {
		return err
	}
	events, err := s.events(ctx, pod)
	if err != nil {
		return err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1alpha1.ConditionFields && c.Status == corev1.ConditionFalse && events["FieldsDropped"] != nil {
			return nil
		}
	}
	return errors.New("the proxy has not both the condition and the event")
}
