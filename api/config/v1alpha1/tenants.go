package v1alpha1

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AllowsLabel says whether virtual nodes of Targets may have a label of the target's nodes, by NodeLabels alone.
func (t *Tenants) AllowsLabel(key string) bool {
	return slices.ContainsFunc(t.NodeLabels, func(pattern string) bool {
		prefix, all := strings.CutSuffix(pattern, "*")
		return pattern == key || all && strings.HasPrefix(key, prefix)
	})
}

func validateTenants(path *field.Path, t *Tenants) field.ErrorList {
	var errs field.ErrorList
	for i, pattern := range t.NodeLabels {
		key, all := strings.CutSuffix(pattern, "*")
		if all {
			key += "x"
		}
		for _, message := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path.Child("nodeLabels").Index(i), pattern, message))
		}
	}
	return append(errs, validateCIDRs(path.Child("allowedPodCIDRs"), t.AllowedPodCIDRs)...)
}

func validateCIDRs(path *field.Path, cidrs []string) field.ErrorList {
	var errs field.ErrorList
	for i, cidr := range cidrs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), cidr, "must be a range of addresses, such as 10.4.0.0/14"))
		}
	}
	return errs
}
