package attempts

import (
	"slices"
	"strings"
)

// The identities that make attempts.
const (
	C1        = "ClusterSource c1"
	C2        = "ClusterSource c2"
	C3        = "Source c3 in shop"
	WithoutID = "ClusterSource c0, without a cluster ID"
	Tenant    = "tenant of shop"
)

// The namespaces. c1 selects shop; it selected left, and still has a copy there. c2 selects none of them by name, so it
// has all but the last two. c3 and the tenant have shop.
const (
	Shop       = "shop"
	Deselected = "left"
	Other      = "other"
	system     = "kube-system"
	own        = "admiralty"
	leases     = "admiralty-leases"
)

// The answers.
const (
	allowed  = "allowed"
	rbac     = "refused by RBAC"
	Policy   = "refused by the policy of sources"
	Mark     = "refused by the policy of the mark"
	both     = "refused by both policies" // API servers ask them in any order.
	Capped   = "refused by the policy of tokens"
	OnLeases = "refused by the policy of Leases"
	Webhook  = "refused by the webhook"
)

// Attempt is one request of one identity, with the answer that it must get.
type Attempt struct {
	Who, Where, What string
	request          request
	Want             string
	Says             string // a part of the answer of a policy
}

// Table returns all attempts.
func Table() []Attempt {
	var all []Attempt
	for _, part := range [][]Attempt{
		chaperons(), copies(), endpoints(), addressesOfEndpoints(), secretTypes(), keys(),
		holds(), reads(), pods(), escalations(), tokens(),
		ofTheSecondSource(), ofASource(), withoutAClusterID(), ofATenant(),
	} {
		all = append(all, part...)
	}
	return all
}

const (
	notYours      = "is not a PodChaperon of"
	notItsID      = "may not use this cluster ID"
	notCopy       = "is not a copy that"
	mustHave      = "must have the annotation"
	badType       = "which a source cluster may not make"
	badFinalizer  = "others could not delete the object"
	badOwner      = "has owner references"
	badKeys       = "because other controllers act upon them"
	emptyVolumes  = "empty volumes only"
	badLease      = "only users who may delete Leases"
	withDelegate  = "without its delegate"
	notItsService = "is not a copy of this source"
	onlyWhom      = "only the user whom it names may set it"
	inUse         = "in use by"
	aDay          = "tokens of a day at most"
)

func chaperons() []Attempt {
	return []Attempt{
		{C1, Shop, "create a PodChaperon", create(chaperon, labelled("c1")), allowed, ""},
		{C1, Shop, "create a PodChaperon with the cluster ID of c2",
			create(chaperon, labelled("c2")), Policy, notItsID},
		{C1, Shop, "create a PodChaperon without a cluster ID", create(chaperon, ""), Policy, notItsID},
		{C1, Shop, "create a privileged PodChaperon (rules for delegates decide)", create(privileged, labelled("c1")),
			allowed, ""},
		{C1, Shop, "create a PodChaperon whose containers are a text", create(formless, labelled("c1")), Policy,
			"no list of containers"},
		{C1, Shop, "create a PodChaperon whose quantity nobody can decode (the manager refuses the delegate)",
			create(endless, labelled("c1")), allowed, ""},
		{C1, Deselected, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{C1, Other, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{C1, system, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{C1, own, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{C1, Shop, "change its PodChaperon", annotate(chaperon, "of-c1"), allowed, ""},
		{C1, Shop, "delete its PodChaperon", remove(chaperon, "of-c1"), allowed, ""},
		{C1, Shop, "delete its PodChaperon, and then the delegate",
			removeWith(`"propagationPolicy":"Background"`, chaperon, "of-c1"), allowed, ""},
		{C1, Shop, "delete its PodChaperon, and keep the delegate",
			removeWith(`"propagationPolicy":"Orphan"`, chaperon, "of-c1"), Policy, withDelegate},
		{C1, Shop, "the same, as in old versions of Kubernetes",
			removeWith(`"orphanDependents":true`, chaperon, "of-c1"), Policy, withDelegate},
		{C1, Shop, "change its PodChaperon to c2's", patch(chaperon, "of-c1", labelled("c2")), Policy, notItsID},
		{C1, Shop, "take its cluster ID off its PodChaperon",
			patch(chaperon, "of-c1", `"labels":null`), Policy, notItsID},
		{C1, Shop, "change a PodChaperon of c2", annotate(chaperon, "of-c2"), Policy, notYours},
		{C1, Shop, "change a PodChaperon of c2 to its own", patch(chaperon, "of-c2", labelled("c1")), Policy, notYours},
		{C1, Shop, "apply over a PodChaperon of c2", apply(chaperon, "of-c2", labelled("c1")), Policy, notYours},
		{C1, Shop, "delete a PodChaperon of c2", remove(chaperon, "of-c2"), Policy, notYours},
		{C1, Shop, "replace a PodChaperon of c2", replace(chaperon, "of-c2", labelled("c1")), rbac, ""},
		{C1, Shop, "delete a PodChaperon without a cluster ID", remove(chaperon, "of-nobody"), Policy, notYours},
		{C1, Shop, "delete all PodChaperons", removeAll(chaperon), rbac, ""},
		{C1, Shop, "change the status of its PodChaperon", annotate(chaperon, "of-c1/status"), rbac, ""},
		{C1, Other, "delete a PodChaperon of c2", remove(chaperon, "of-c2"), rbac, ""},
		{C1, Shop, "list PodChaperons (those of others there, too)", list(chaperon), allowed, ""},
		{C1, Deselected, "list PodChaperons", list(chaperon), allowed, ""},
		{C1, Other, "list PodChaperons", list(chaperon), rbac, ""},
		{C1, Other, "watch PodChaperons", watch(chaperon), rbac, ""},
		{C1, Other, "read a PodChaperon of c2", get(chaperon, "of-c2"), rbac, ""},
		{C1, system, "list PodChaperons", list(chaperon), rbac, ""},
		{C1, "", "list PodChaperons of the whole cluster", read(project + "podchaperons"), rbac, ""},
		{C1, "", "watch PodChaperons of the whole cluster", read(project + "podchaperons?watch=true"), rbac, ""},
	}
}

func copies() []Attempt {
	all := []Attempt{
		{C1, Deselected, "delete its ConfigMap", remove(configMap, "of-c1"), allowed, ""},
		{C1, Deselected, "delete a ConfigMap of the target", remove(configMap, "web"), Policy, notCopy},
		{C1, Shop, "create a Service of type LoadBalancer", create(balancer, marked("c1")), Policy, "ClusterIP only"},
		{C1, Shop, "create an Ingress with a snippet", create(ingress, marked("c1",
			`"nginx.ingress.kubernetes.io/server-snippet":"x"`)), Policy, "snippets"},
		{C1, Shop, "create a claim that names its volume", create(choosing, marked("c1")), Policy, emptyVolumes},
		{C1, Shop, "create a claim that clones another one", create(cloned, marked("c1")), Policy, emptyVolumes},
		{C1, Shop, "name the volume of its claim", bindClaim("of-c1"), Policy, emptyVolumes},
		{C1, Shop, "annotate its claim", annotate(claim, "of-c1"), allowed, ""},
		{C1, Shop, "make its ConfigMap c2's", replace(configMap, "of-c1", marked("c2")), Policy, notItsID},
		{C1, Shop, "take the marks off its ConfigMap", replace(configMap, "of-c1", ""), Policy, mustHave},
		{C1, Shop, "create a ConfigMap in the name of c2", create(configMap, markedBy("USER-OF-c2", "c1")), both,
			"the annotation " + markKey + ": "},
		{C1, Shop, "delete a ConfigMap of c2", remove(configMap, "of-c2"), Policy, notCopy},
		{C1, Shop, "replace a ConfigMap of c2", replace(configMap, "of-c2", marked("c1")), Policy, notCopy},
	}
	for _, k := range []kind{configMap, secret, account, claim, service, slice, ingress} {
		all = append(all,
			Attempt{C1, Shop, "create a copy of a " + string(k), create(k, copied(k, "c1")), allowed, ""},
			Attempt{C1, Shop, "create a " + string(k) + " without marks", create(k, ""), Policy, mustHave},
			Attempt{C1, Shop, "create a copy of a " + string(k) + " with c2's ID",
				create(k, marked("c2")), Policy, notItsID},
			Attempt{C1, Shop, "delete a " + string(k) + " of the target", remove(k, "web"), Policy, notCopy},
			Attempt{C1, Deselected, "create a copy of a " + string(k), create(k, marked("c1")), rbac, ""},
			Attempt{C1, system, "create a copy of a " + string(k), create(k, marked("c1")), rbac, ""},
		)
	}
	return all
}

// endpoints are attempts to send the users of a Service elsewhere.
func endpoints() []Attempt {
	const service = `"labels":{"kubernetes.io/service-name":"web"}`
	return []Attempt{
		{C1, Shop, "create endpoints of a Service of the target", create(slice, endpointsOf("web", "c1")), Webhook,
			notItsService},
		{C1, Shop, "create endpoints of a Service of c2", create(slice, endpointsOf("of-c2", "c1")), Webhook,
			notItsService},
		{C1, Shop, "create endpoints of a Service that does not exist", create(slice, endpointsOf("none", "c1")),
			Webhook, "write the Service first"},
		{C1, Shop, "create endpoints that name no Service", create(slice, marked("c1")), Webhook, "names no Service"},
		{C1, Shop, "change its endpoints", move("of-c1"), allowed, ""},
		{C1, Shop, "move its endpoints to a Service of the target", patch(slice, "of-c1", service), Webhook,
			notItsService},
		{C1, Shop, "change endpoints that an earlier version let it add to a Service of the target", move("old-of-c1"),
			Webhook, notItsService},
		{C1, Shop, "annotate these endpoints", annotate(slice, "old-of-c1"), allowed, ""},
		{C1, Shop, "delete these endpoints", remove(slice, "old-of-c1"), allowed, ""},
		{C1, Shop, "change endpoints of c2", move("of-c2"), Policy, notCopy},
	}
}

// addressesOfEndpoints are attempts to lead the users of its own Services to others in the target.
func addressesOfEndpoints() []Attempt {
	var all []Attempt
	for _, a := range []struct{ what, addressType, address, want, says string }{
		{"a pod of another cluster", "IPv4", "10.4.5.6", allowed, ""},
		{"a delegate of c1", "IPv4", delegateAddress, allowed, ""},
		{"a pod of the target", "IPv4", podAddress, Webhook, inUse + " a pod"},
		{"the same pod by NAT64", "IPv6", podAddressNAT64, Webhook, inUse + " a pod"},
		{"a node", "IPv4", nodeAddress, Webhook, inUse + " a node"},
		{"a bridge of a node", "IPv4", bridgeAddress, Webhook, inUse + " a node"},
		{"a Service of the target", "IPv4", serviceAddress, Webhook, inUse + " a Service"},
		{"an API server", "IPv4", serverAddress, Webhook, inUse + " an API server"},
		{"a multicast address", "IPv4", "239.1.1.1", Webhook, "a multicast address"},
		{"the metadata of a cloud by NAT64", "IPv6", "64:ff9b::a9fe:a9fe", Webhook, "a link-local address"},
		{"an address out of range", "IPv4", "192.0.2.9", Webhook, "sources.endpoints.allowedCIDRs"},
		{"a host name", "FQDN", "db.other", Policy, "with addresses only"},
	} {
		all = append(all, Attempt{C1, Shop, "create endpoints that lead to " + a.what,
			leadTo(a.addressType, a.address), a.want, a.says})
	}
	return append(all,
		Attempt{C1, Shop, "add the address of a pod of the target to its endpoints",
			lead("of-c1", `"addresses":["`+podAddress+`"]`), Webhook, inUse + " a pod"},
		Attempt{C1, Shop, "remove all its endpoints", without("of-c1", "[]"), allowed, ""},
		Attempt{C1, Shop, "remove its endpoints as a field", without("of-c1", "null"), allowed, ""},
		Attempt{C1, Shop, "name a node in its endpoints", lead("of-c1",
			`"addresses":["10.4.5.6"],"nodeName":"machine"`), Policy, "with addresses only"},
		Attempt{C1, Shop, "name a pod in its endpoints",
			lead("of-c1", `"addresses":["10.4.5.6"],"targetRef":{"kind":"Pod","name":"used"}`), Policy,
			"with addresses only"},
		Attempt{C1, Shop, "create a " + string(named), create(named, marked("c1")), Policy, "without external IPs"},
		Attempt{C1, Shop, "create a " + string(balanced), create(balanced, marked("c1")), Policy,
			"without external IPs"},
		Attempt{C1, Shop, "create a " + string(selective), create(selective, marked("c1")), allowed, ""},
		Attempt{C1, Shop, "create a " + string(greedy), create(greedy, marked("c1")), Policy,
			"not delegates of this source"})
}

func secretTypes() []Attempt {
	var all []Attempt
	for _, kubernetesOwn := range []struct{ name, data string }{
		{"kubernetes.io/dockerconfigjson", `".dockerconfigjson":"e30="`},
		{"kubernetes.io/dockercfg", `".dockercfg":"e30="`},
		{"kubernetes.io/tls", `"tls.crt":"","tls.key":""`},
		{"kubernetes.io/basic-auth", `"username":"YQ=="`},
		{"kubernetes.io/ssh-auth", `"ssh-privatekey":"YQ=="`},
	} {
		all = append(all, Attempt{C1, Shop, "create a Secret of type " + kubernetesOwn.name,
			create(typed(kubernetesOwn.name, kubernetesOwn.data), marked("c1")), allowed, ""})
	}
	for _, refused := range []string{"bootstrap.kubernetes.io/token", "helm.sh/release.v1", "example.org/any"} {
		all = append(all, Attempt{C1, Shop, "create a Secret of type " + refused,
			create(typed(refused, ""), marked("c1")), Policy, badType})
	}
	token := typed("kubernetes.io/service-account-token", "")
	return append(all,
		Attempt{C1, Shop, "create a Secret for a token of a service account",
			create(token, marked("c1", `"kubernetes.io/service-account.name":"web"`)), Policy, badType},
		Attempt{C1, Shop, "change a Secret whose type an earlier version could make",
			replace(typed("example.org/any", ""), "typed-of-c1", marked("c1")), allowed, ""})
}

func keys() []Attempt {
	replicated := `"replicator.v1.mittwald.de/replicate-from":"kube-system/web"`
	argo := `"argocd.argoproj.io/tracking-id":"x"`
	role := `"eks.amazonaws.com/role-arn":"x"`
	return []Attempt{
		{C1, Shop, "create a Secret that a replicator fills",
			create(secret, marked("c1", replicated)), Policy, badKeys},
		{C1, Shop, "create a Secret that Argo CD takes for a cluster",
			create(secret, withLabel("c1", `"argocd.argoproj.io/secret-type":"cluster"`)), Policy, badKeys},
		{C1, Shop, "create a service account with a role of the cloud", create(account, marked("c1", role)), Policy,
			badKeys},
		{C1, Shop, "add a role of the cloud to its service account",
			patch(account, "of-c1", `"annotations":{`+role+`}`),
			Policy, badKeys},
		{C1, Shop, "create a ConfigMap with a user's key",
			create(configMap, marked("c1", `"example.org/a":"b"`)), allowed,
			""},
		{C1, Shop, "change its ConfigMap, to which an administrator added a key of Argo CD",
			replace(configMap, "tracked-of-c1", marked("c1", argo)), allowed, ""},
		{C1, Shop, "change the value of that key", replace(configMap, "tracked-of-c1",
			marked("c1", strings.Replace(argo, `"x"`, `"y"`, 1))), Policy, badKeys},
	}
}

// holds are attempts to hold objects that others want to delete.
func holds() []Attempt {
	const finalizers, claims = `"finalizers":["example.org/hold"]`, `"finalizers":["kubernetes.io/pvc-protection"]`
	all := []Attempt{
		{C1, Shop, "create a claim with the finalizer of claims", create(claim, marked("c1")+","+claims), allowed, ""},
		{C1, Shop, "change its ConfigMap, to which an administrator added a finalizer and an owner",
			replace(configMap, "held-of-c1", marked("c1")+","+finalizers+","+owners), allowed, ""},
		{C1, Shop, "take these off", replace(configMap, "held-of-c1", marked("c1")), allowed, ""},
		{C1, Shop, "make that owner block its own deletion", replace(configMap, "held-of-c1", marked("c1")+","+
			strings.Replace(owners, `"uid"`, `"blockOwnerDeletion":true,"uid"`, 1)), Policy, badOwner},
	}
	for _, k := range []kind{configMap, slice, chaperon} {
		mine := copied(k, "c1")
		all = append(all,
			Attempt{C1, Shop, "create a " + string(k) + " with a finalizer", create(k, mine+","+finalizers), Policy,
				badFinalizer},
			Attempt{C1, Shop, "create a " + string(k) + " with an owner", create(k, mine+","+owners), Policy, badOwner})
	}
	return append(all,
		Attempt{C1, Shop, "add a finalizer to its PodChaperon", patch(chaperon, "of-c1", finalizers), Policy,
			badFinalizer},
		Attempt{C1, Shop, "add the finalizer of claims to its PodChaperon", patch(chaperon, "of-c1", claims), Policy,
			badFinalizer},
		Attempt{C1, Shop, "create a ConfigMap with the finalizer of claims",
			create(configMap, marked("c1")+","+claims), Policy, badFinalizer},
		Attempt{C1, Shop, "add an owner to its service account", patch(account, "of-c1", owners), Policy, badOwner})
}

func reads() []Attempt {
	var all []Attempt
	for _, k := range []kind{secret, configMap} {
		all = append(all,
			Attempt{C1, Shop, "read a " + string(k), get(k, "web"), rbac, ""},
			Attempt{C1, Shop, "list " + string(k) + "s", list(k), rbac, ""},
			Attempt{C1, Shop, "watch " + string(k) + "s", watch(k), rbac, ""},
			Attempt{C1, Shop, "patch its " + string(k), annotate(k, "of-c1"), rbac, ""},
			Attempt{C1, Shop, "delete all " + string(k) + "s", removeAll(k), rbac, ""},
			Attempt{C1, Shop, "overwrite a " + string(k) + " of the target",
				replace(k, "web", marked("c1")), Policy, notCopy},
			Attempt{C1, system, "overwrite a " + string(k) + " of the target",
				replace(k, "web", marked("c1")), rbac, ""},
			Attempt{C1, Other, "read a " + string(k), get(k, "web"), rbac, ""})
	}
	return append(slices.Concat(all, readsOfCopies(), renewals(C1)),
		Attempt{C1, Shop, "read a service account", get(account, "web"), allowed, ""},
		Attempt{C1, Other, "read a service account", get(account, "web"), rbac, ""},
		Attempt{C1, "", "list nodes", read("/api/v1/nodes"), rbac, ""},
		Attempt{C1, "", "list namespaces", read("/api/v1/namespaces"), rbac, ""},
		Attempt{C1, "", "read the ClusterSummary", read(project + "clustersummaries"), allowed, ""},
		Attempt{C1, "", "list SourceGrants", read(project + "sourcegrants"), rbac, ""},
		Attempt{C1, leases, "list Leases", list(lease), rbac, ""},
		Attempt{C1, leases, "read a Lease of another source", get(lease, "source-of-another"), rbac, ""},
		Attempt{C1, leases, "write a Lease of another source", replace(lease, "source-of-another", ""), rbac, ""},
		Attempt{C1, leases, "write the Lease of the target's manager", replace(lease, "manager", ""), rbac, ""},
		Attempt{C1, leases, "create a Lease", create(lease, ""), rbac, ""},
		Attempt{C1, leases, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""})
}

// renewals are attempts of a source with its own Lease.
func renewals(who string) []Attempt {
	return []Attempt{
		{who, leases, "renew its Lease", renew(""), allowed, ""},
		{who, leases, "add a finalizer to its Lease", renew(`,"finalizers":["example.org/hold"]`), OnLeases, badLease},
		{who, leases, "add an owner to its Lease", renew("," + owners), OnLeases, badLease},
	}
}

func pods() []Attempt {
	var all []Attempt
	for _, in := range []struct{ where, want string }{
		{Shop, allowed}, {Deselected, allowed}, {Other, rbac}, {system, rbac},
	} {
		all = append(all,
			Attempt{C1, in.where, "read the logs of a pod", get(pod, "web/log"), in.want, ""},
			Attempt{C1, in.where, "exec into a pod", post(pod, "web/exec?command=id&stdout=true"), in.want, ""},
			Attempt{C1, in.where, "attach to a pod", post(pod, "web/attach?stdout=true"), in.want, ""},
			Attempt{C1, in.where, "forward a port of a pod", post(pod, "web/portforward"), in.want, ""},
			Attempt{C1, in.where, "list the usage of pods", read(usage), in.want, ""})
	}
	return append(all,
		Attempt{C1, Shop, "read the usage of a pod", read(usage + "/web"), rbac, ""},
		Attempt{C1, Shop, "watch the usage of pods", read(usage + "?watch=true"), rbac, ""},
		Attempt{C1, "", "list the usage of pods of the whole cluster", read(measured + "pods"), rbac, ""},
		Attempt{C1, "", "list the usage of nodes", read(measured + "nodes"), rbac, ""},
		Attempt{C1, Shop, "create a pod", create(pod, marked("c1")), rbac, ""},
		Attempt{C1, Shop, "delete a pod", remove(pod, "web"), rbac, ""},
		Attempt{C1, Shop, "evict a pod", post(pod, "web/eviction"+dryRun), rbac, ""},
		Attempt{C1, Shop, "add an ephemeral container", patch(pod, "web/ephemeralcontainers", ""), rbac, ""},
		Attempt{C1, system, "create a pod", create(pod, marked("c1")), rbac, ""})
}

// tokens are attempts of sources that connect made, which may make tokens for their own accounts.
func tokens() []Attempt {
	return []Attempt{
		{C1, own, "make a token of its own service account for ten minutes", tokenFor(accountOf+"c1", 600), allowed,
			""},
		{C1, own, "make a token of its own service account for a day", tokenFor(accountOf+"c1", 86400), allowed, ""},
		{C1, own, "make a token of its own service account for a day and a second",
			tokenFor(accountOf+"c1", 86401), Capped, aDay},
		{C1, own, "make a token of its own service account for a year", tokenFor(accountOf+"c1", 31536000), Capped,
			aDay},
		{C1, own, "make a token of c2's service account for ten minutes", tokenFor(accountOf+"c2", 600), rbac, ""},
		{C1, own, "give itself rights on another service account", request{
			verb: "PATCH", contentType: mediaMerge, body: `{}`,
			path: "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles/renewal-of-c1" + dryRun,
		}, rbac, ""},
	}
}

func escalations() []Attempt {
	token := func(name string) request { return post(account, name+"/token"+dryRun) }
	impersonate := get(secret, "web")
	impersonate.as = "admin"
	return []Attempt{
		{C1, Shop, "bind cluster-admin", create(binding, ""), rbac, ""},
		{C1, Shop, "create a Source", create(sourceKind, ""), rbac, ""},
		{C1, Shop, "make a token of a service account of the target", token("web"), rbac, ""},
		{C1, Shop, "make a token of the service account that it copied", token("of-c1"), rbac, ""},
		{C1, own, "make a token of c2's service account", token(accountOf + "c2"), rbac, ""},
		{C1, own, "make a token of the manager's service account", token("multicluster-scheduler-controller-manager"),
			rbac, ""},
		{C1, Shop, "impersonate an administrator", impersonate, rbac, ""},
		{C1, "", "change a policy", request{
			verb: "PATCH", contentType: mediaMerge, body: `{}`,
			path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/multicluster-scheduler-source" +
				dryRun,
		}, rbac, ""},
	}
}
