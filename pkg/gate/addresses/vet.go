package addresses

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// RefusedError says why an address is not shown.
type RefusedError struct {
	// Address is what the target said, shortened.
	Address string
	// Reason completes the sentence "the address is ...", and says what to do, for users to read.
	Reason string
	// OutOfRange says that the administrators do not allow the address, and that nothing else is wrong with it.
	OutOfRange bool
}

// Error names the address and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the address %s is %s", e.Address, e.Reason)
}

// Ranges are the ranges from which a target's pods may have addresses.
type Ranges struct {
	// Allowed are the ranges. They count only if Limited is set.
	Allowed []netip.Prefix
	Limited bool
	// Source names the field or value with the ranges, for messages.
	Source string
}

// ParseRange parses a range of addresses, such as 10.0.0.0/16.
func ParseRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("parsing a range of addresses: %w", err)
	}
	const mapped = 96
	if prefix.Addr().Is4In6() && prefix.Bits() >= mapped {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mapped)
	}
	return prefix.Masked(), nil
}

// RangesOf parses ranges. The source names them in messages. No texts are no limit. A text that is no range allows
// nothing.
func RangesOf(texts []string, source string) Ranges {
	ranges := Ranges{Limited: len(texts) > 0, Source: source}
	for _, text := range texts {
		if prefix, err := ParseRange(text); err == nil {
			ranges.Allowed = append(ranges.Allowed, prefix)
		}
	}
	return ranges
}

func (r Ranges) contains(address netip.Addr) bool {
	return !r.Limited || slices.ContainsFunc(r.Allowed, func(p netip.Prefix) bool { return p.Contains(address) })
}

func (r Ranges) check(address netip.Addr) *RefusedError {
	if r.contains(address) {
		return nil
	}
	return &RefusedError{Address: address.String(), OutOfRange: true, Reason: fmt.Sprintf(
		"outside of the ranges in %s; if pods of the target may have it, ask the administrators to add its range",
		r.Source,
	)}
}

// parse returns an address in its only form.
func parse(text string) (netip.Addr, *RefusedError) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, &RefusedError{
			Address: wire.Shorten(text, maxText),
			Reason:  "none that a pod can have; does the target run a usual kubelet?",
		}
	}
	return address.Unmap(), nil
}

// maxText is the bound, in bytes, of an address that a target sent, in messages.
const maxText = 64

// checkForm refuses addresses that lead to one machine or its network segment.
func checkForm(address netip.Addr) *RefusedError {
	var refused *wire.AddressError
	if err := wire.CheckPublic(address); errors.As(err, &refused) {
		return &RefusedError{
			Address: address.String(), Reason: refused.Reason + ", which no pod of another cluster can have",
		}
	}
	return nil
}

// Vet decides about an address. It returns nil if the address may be shown.
type Vet func(netip.Addr) *RefusedError

// Show changes a status that a proxy is to have: only addresses that vet accepts stay, at most one of each family, and
// the condition Addresses says which ones do not. was is the proxy's status now.
//
// A host's address that is only out of range is left out without a word: the ranges are about pods.
func Show(status *corev1.PodStatus, was corev1.PodStatus, vet Vet, now metav1.Time) {
	pods, refused := accepted(append([]string{status.PodIP}, podIPs(status.PodIPs)...), vet)
	hosts, refusedHosts := accepted(append([]string{status.HostIP}, hostIPs(status.HostIPs)...), vet)
	status.PodIP, status.PodIPs = "", nil
	for _, ip := range pods {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
	status.HostIP, status.HostIPs = "", nil
	for _, ip := range hosts {
		status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(pods) > 0 {
		status.PodIP = pods[0]
	}
	if len(hosts) > 0 {
		status.HostIP = hosts[0]
	}
	refusedHosts = slices.DeleteFunc(refusedHosts, func(e *RefusedError) bool { return e.OutOfRange })
	explain(status, was, slices.Concat(refused, refusedHosts), now)
}

// MustHide says whether a status shows an address that vet does not accept.
func MustHide(status *corev1.PodStatus, vet Vet) bool {
	_, refused := accepted(append([]string{status.PodIP}, podIPs(status.PodIPs)...), vet)
	_, refusedHosts := accepted(append([]string{status.HostIP}, hostIPs(status.HostIPs)...), vet)
	return len(refused)+len(refusedHosts) > 0
}

func podIPs(ips []corev1.PodIP) []string {
	texts := make([]string, 0, len(ips))
	for i := range ips {
		texts = append(texts, ips[i].IP)
	}
	return texts
}

func hostIPs(ips []corev1.HostIP) []string {
	texts := make([]string, 0, len(ips))
	for i := range ips {
		texts = append(texts, ips[i].IP)
	}
	return texts
}

// maxAddresses is how many addresses of a list are read. Honest kubelets report two, and the first one twice.
const maxAddresses = 4

// accepted returns the first address of each family that vet accepts, and why others were refused.
func accepted(texts []string, vet Vet) (shown []string, refused []*RefusedError) {
	seen := map[string]bool{"": true}
	families := map[bool]bool{}
	for _, text := range texts[:min(len(texts), maxAddresses)] {
		if seen[text] {
			continue
		}
		seen[text] = true
		address, err := parse(text)
		if err == nil {
			err = vet(address)
		}
		switch {
		case err != nil:
			refused = append(refused, err)
		case !families[address.Is4()]:
			families[address.Is4()] = true
			shown = append(shown, address.String())
		}
	}
	return shown, refused
}

// explain sets the condition Addresses, or removes it if no address was refused. A target cannot set it.
func explain(status *corev1.PodStatus, was corev1.PodStatus, refused []*RefusedError, now metav1.Time) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.ConditionAddresses
	})
	if len(refused) == 0 {
		return
	}
	var texts []string
	for _, err := range refused {
		if text := err.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	reason := v1alpha1.ReasonAddressOutOfRange
	if slices.ContainsFunc(refused, func(e *RefusedError) bool { return !e.OutOfRange }) {
		reason = v1alpha1.ReasonAddressRefused
	}
	condition := corev1.PodCondition{
		Type: v1alpha1.ConditionAddresses, Status: corev1.ConditionFalse, Reason: reason,
		Message:            "this pod does not show what the target reports: " + strings.Join(texts, "; "),
		LastTransitionTime: now,
	}
	if before := translate.PodCondition(was.Conditions, v1alpha1.ConditionAddresses); before != nil {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	status.Conditions = append(status.Conditions, condition)
}
