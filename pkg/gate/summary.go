package gate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/amounts"
)

// The bounds of a ClusterSummary. A target's manager publishes no more classes, vectors, text and delegates than this.
// The other bounds are beyond any honest cluster.
const (
	maxClasses   = 50
	maxVectors   = 256
	maxSizes     = 4         // of empty nodes, in a class
	maxText      = 128 << 10 // bytes of the labels and taints of all classes, and of the labels of the object
	maxOmitted   = 32<<10 + 1<<10
	maxSources   = 1000
	maxLatest    = 256
	maxResources = 256
	maxUID       = 36
	maxVersion   = 128
	maxFeatures  = 512
	maxFeature   = 128
	maxDevices   = 128
)

// featureName is what API servers accept in status.declaredFeatures of nodes.
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// CheckSummary returns an error, for users to read, unless the ClusterSummary is one that a target's manager can have
// published: within its bounds, with valid labels, taints and resource names, and without negative amounts.
func CheckSummary(summary *v1alpha1.ClusterSummary) error {
	status := &summary.Status
	switch {
	case summary.Name != v1alpha1.ClusterSummaryName:
		return fmt.Errorf("its name is not %s", v1alpha1.ClusterSummaryName)
	case len(status.Classes) > maxClasses:
		return fmt.Errorf("it has %d node classes, and at most %d are read", len(status.Classes), maxClasses)
	case len(status.Sources) > maxSources:
		return fmt.Errorf("it has %d sources, and at most %d are read", len(status.Sources), maxSources)
	case status.Nodes < 0:
		return errors.New("its number of nodes is negative")
	case len(status.KubernetesVersion) > maxVersion || strings.ContainsFunc(status.KubernetesVersion, notInVersion):
		return errors.New("its Kubernetes version is invalid")
	}
	return cmp.Or(
		checkFeatures(status.DeclaredFeatures),
		checkDevices(status.DeviceResources),
		within("labels", checkLabels(summary.Labels), text(summary.Labels, nil), maxText),
		checkAmounts("capacity", summary.Capacity),
		checkAmounts("allocatable", summary.Allocatable),
		checkAmounts("requested", status.Requested),
		checkLabelValue("cluster ID", status.ClusterID),
		checkOmitted(status.OmittedLabels),
		checkClasses(status),
		checkSources(status.Sources),
	)
}

// checkFeatures checks what the source's API server would refuse.
func checkFeatures(features []string) error {
	if len(features) > maxFeatures {
		return fmt.Errorf("it declares %d features, and at most %d are read", len(features), maxFeatures)
	}
	for i, feature := range features {
		if len(feature) > maxFeature || !featureName.MatchString(feature) || i > 0 && features[i-1] >= feature {
			return fmt.Errorf("the declared feature %q is invalid, or not in order", short(feature))
		}
	}
	return nil
}

// checkDevices lets only extended resources pass: a target that offered CPUs without end would be believed.
func checkDevices(resources []string) error {
	if len(resources) > maxDevices {
		return fmt.Errorf("it has %d resources of devices, and at most %d are read", len(resources), maxDevices)
	}
	for i, name := range resources {
		if !isExtended(name) || i > 0 && resources[i-1] >= name {
			return fmt.Errorf("the resource of devices %q is no extended resource, or not in order", short(name))
		}
	}
	return nil
}

// isExtended says whether DeviceClasses can provide the resource: IsDRAExtendedResourceName of kube-scheduler.
func isExtended(name string) bool {
	prefixed := strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0
	ours := strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix)
	return prefixed && (!ours || strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix))
}

func notInVersion(r rune) bool { return r <= ' ' || r > '~' }

func within(of string, err error, size, limit int) error {
	if err == nil && size > limit {
		return fmt.Errorf("its %s have %d bytes, and at most %d are read", of, size, limit)
	}
	return err
}

func checkClasses(status *v1alpha1.ClusterSummaryStatus) error {
	errs := []error{checkLabels(status.CommonLabels)}
	size, vectors := text(status.CommonLabels, nil), 0
	for i := range status.Classes {
		class := &status.Classes[i]
		size += text(class.Labels, class.Taints)
		vectors += len(class.Free)
		if vectors > maxVectors || size > maxText {
			break
		}
		errs = append(errs, checkClass(class))
	}
	if vectors > maxVectors {
		return fmt.Errorf("it has more than %d vectors of free resources", maxVectors)
	}
	return within("labels and taints of node classes", cmp.Or(errs...), size, maxText)
}

func checkClass(class *v1alpha1.NodeClass) error {
	errs := []error{
		checkLabels(class.Labels),
		checkTaints(class.Taints),
		checkAmounts("allocatable", class.Allocatable),
	}
	if len(class.Empty) > maxSizes {
		return fmt.Errorf("a class has %d sizes of empty nodes, and at most %d are read", len(class.Empty), maxSizes)
	}
	for _, list := range class.Empty {
		errs = append(errs, checkAmounts("empty nodes", list))
	}
	negative := class.Nodes < 0
	for i := range class.Free {
		negative = negative || class.Free[i].Nodes < 0
		errs = append(errs, checkAmounts("free resources", class.Free[i].Resources))
	}
	if negative {
		errs = append(errs, errors.New("the number of nodes of a class is negative"))
	}
	return cmp.Or(errs...)
}

// text returns the bytes of labels and taints, as package capacity counts them.
func text(labels map[string]string, taints []corev1.Taint) (size int) {
	for key, value := range labels {
		size += len(key) + len(value) + 2
	}
	for i := range taints {
		size += len(taints[i].ToString()) + 2
	}
	return size
}

func checkOmitted(keys []string) error {
	size := 0
	for _, key := range keys {
		if size += len(key); size > maxOmitted {
			return fmt.Errorf("the keys of its omitted labels have more than %d bytes", maxOmitted)
		}
		if err := checkKey("label", key); err != nil {
			return err
		}
	}
	return nil
}

func checkSources(sources []v1alpha1.SourceUsage) error {
	for i := range sources {
		source := &sources[i]
		tooLong := func(uid string) bool { return len(uid) > maxUID }
		if len(source.Latest) > maxLatest || slices.ContainsFunc(source.Latest, tooLong) {
			return errors.New("its list of a source's delegates is too long")
		}
		err := cmp.Or(
			checkLabelValue("source's cluster ID", source.ClusterID),
			checkAmounts("requests of a source", source.Requested),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkAmounts checks names and quantities. The largest quantities leave room for sums, also in thousandths.
func checkAmounts(of string, list corev1.ResourceList) error {
	if len(list) > maxResources {
		return fmt.Errorf("its %s have %d resources, and at most %d are read", of, len(list), maxResources)
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity, most := list[name], int64(1<<60)
		if name == corev1.ResourceCPU {
			most = 1 << 50
		}
		switch {
		case len(validation.IsQualifiedName(string(name))) > 0:
			return fmt.Errorf("its %s have the invalid resource %q", of, short(string(name)))
		case quantity.Sign() < 0:
			return fmt.Errorf("its %s have a negative amount of %s", of, name)
		case !amounts.IsSound(quantity.String()), quantity.Cmp(*resource.NewQuantity(most, resource.DecimalSI)) > 0:
			return fmt.Errorf("its %s have too large an amount of %s", of, name)
		}
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if err := cmp.Or(checkKey("label", key), checkLabelValue("label "+short(key), labels[key])); err != nil {
			return err
		}
	}
	return nil
}

func checkTaints(taints []corev1.Taint) error {
	for i := range taints {
		taint := &taints[i]
		if err := cmp.Or(checkKey("taint", taint.Key), checkLabelValue("taint", taint.Value)); err != nil {
			return err
		}
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule:
		default:
			return fmt.Errorf("a taint has the unknown effect %q", short(string(taint.Effect)))
		}
	}
	return nil
}

func checkKey(of, key string) error {
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return fmt.Errorf("%q is no valid key of a %s", short(key), of)
	}
	return nil
}

func checkLabelValue(of, value string) error {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("%q is no valid value of a %s", short(value), of)
	}
	return nil
}

// short cuts a text that a target chose.
func short(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
