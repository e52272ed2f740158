package attempts

import (
	"slices"
	"strings"
)

// The identities that make attempts.
const (
	c1        = "ClusterSource c1"
	c2        = "ClusterSource c2"
	c3        = "Source c3 in shop"
	withoutID = "ClusterSource c0, without a cluster ID"
	tenant    = "tenant of shop"
)

// The namespaces. c1 selects shop; it selected left, and still has a copy there. c2 selects none of them by name, so it
// has all but the last two. c3 and the tenant have shop.
const (
	shop   = "shop"
	left   = "left"
	other  = "other"
	system = "kube-system"
	own    = "admiralty"
	leases = "admiralty-leases"
)

// The answers.
const (
	allowed  = "allowed"
	rbac     = "refused by RBAC"
	policy   = "refused by the policy of sources"
	mark     = "refused by the policy of the mark"
	both     = "refused by both policies" // API servers ask them in any order.
	capped   = "refused by the policy of tokens"
	onLeases = "refused by the policy of Leases"
	webhook  = "refused by the webhook"
)

// attempt is one request of one identity, with the answer that it must get.
type attempt struct {
	who, where, what string
	request          request
	want             string
	says             string // a part of the answer of a policy
}

func table() []attempt {
	var all []attempt
	for _, part := range [][]attempt{
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

func chaperons() []attempt {
	return []attempt{
		{c1, shop, "create a PodChaperon", create(chaperon, labelled("c1")), allowed, ""},
		{c1, shop, "create a PodChaperon with the cluster ID of c2",
			create(chaperon, labelled("c2")), policy, notItsID},
		{c1, shop, "create a PodChaperon without a cluster ID", create(chaperon, ""), policy, notItsID},
		{c1, shop, "create a privileged PodChaperon (rules for delegates decide)", create(privileged, labelled("c1")),
			allowed, ""},
		{c1, shop, "create a PodChaperon whose containers are a text", create(formless, labelled("c1")), policy,
			"no list of containers"},
		{c1, shop, "create a PodChaperon whose quantity nobody can decode (the manager refuses the delegate)",
			create(endless, labelled("c1")), allowed, ""},
		{c1, left, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{c1, other, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{c1, system, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{c1, own, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		{c1, shop, "change its PodChaperon", annotate(chaperon, "of-c1"), allowed, ""},
		{c1, shop, "delete its PodChaperon", remove(chaperon, "of-c1"), allowed, ""},
		{c1, shop, "delete its PodChaperon, and then the delegate",
			removeWith(`"propagationPolicy":"Background"`, chaperon, "of-c1"), allowed, ""},
		{c1, shop, "delete its PodChaperon, and keep the delegate",
			removeWith(`"propagationPolicy":"Orphan"`, chaperon, "of-c1"), policy, withDelegate},
		{c1, shop, "the same, as in old versions of Kubernetes",
			removeWith(`"orphanDependents":true`, chaperon, "of-c1"), policy, withDelegate},
		{c1, shop, "change its PodChaperon to c2's", patch(chaperon, "of-c1", labelled("c2")), policy, notItsID},
		{c1, shop, "take its cluster ID off its PodChaperon",
			patch(chaperon, "of-c1", `"labels":null`), policy, notItsID},
		{c1, shop, "change a PodChaperon of c2", annotate(chaperon, "of-c2"), policy, notYours},
		{c1, shop, "change a PodChaperon of c2 to its own", patch(chaperon, "of-c2", labelled("c1")), policy, notYours},
		{c1, shop, "apply over a PodChaperon of c2", apply(chaperon, "of-c2", labelled("c1")), policy, notYours},
		{c1, shop, "delete a PodChaperon of c2", remove(chaperon, "of-c2"), policy, notYours},
		{c1, shop, "replace a PodChaperon of c2", replace(chaperon, "of-c2", labelled("c1")), rbac, ""},
		{c1, shop, "delete a PodChaperon without a cluster ID", remove(chaperon, "of-nobody"), policy, notYours},
		{c1, shop, "delete all PodChaperons", removeAll(chaperon), rbac, ""},
		{c1, shop, "change the status of its PodChaperon", annotate(chaperon, "of-c1/status"), rbac, ""},
		{c1, other, "delete a PodChaperon of c2", remove(chaperon, "of-c2"), rbac, ""},
		{c1, shop, "list PodChaperons (those of others there, too)", list(chaperon), allowed, ""},
		{c1, left, "list PodChaperons", list(chaperon), allowed, ""},
		{c1, other, "list PodChaperons", list(chaperon), rbac, ""},
		{c1, other, "watch PodChaperons", watch(chaperon), rbac, ""},
		{c1, other, "read a PodChaperon of c2", get(chaperon, "of-c2"), rbac, ""},
		{c1, system, "list PodChaperons", list(chaperon), rbac, ""},
		{c1, "", "list PodChaperons of the whole cluster", read(project + "podchaperons"), rbac, ""},
		{c1, "", "watch PodChaperons of the whole cluster", read(project + "podchaperons?watch=true"), rbac, ""},
	}
}

func copies() []attempt {
	all := []attempt{
		{c1, left, "delete its ConfigMap", remove(configMap, "of-c1"), allowed, ""},
		{c1, left, "delete a ConfigMap of the target", remove(configMap, "web"), policy, notCopy},
		{c1, shop, "create a Service of type LoadBalancer", create(balancer, marked("c1")), policy, "ClusterIP only"},
		{c1, shop, "create an Ingress with a snippet", create(ingress, marked("c1",
			`"nginx.ingress.kubernetes.io/server-snippet":"x"`)), policy, "snippets"},
		{c1, shop, "create a claim that names its volume", create(choosing, marked("c1")), policy, emptyVolumes},
		{c1, shop, "create a claim that clones another one", create(cloned, marked("c1")), policy, emptyVolumes},
		{c1, shop, "name the volume of its claim", bindClaim("of-c1"), policy, emptyVolumes},
		{c1, shop, "annotate its claim", annotate(claim, "of-c1"), allowed, ""},
		{c1, shop, "make its ConfigMap c2's", replace(configMap, "of-c1", marked("c2")), policy, notItsID},
		{c1, shop, "take the marks off its ConfigMap", replace(configMap, "of-c1", ""), policy, mustHave},
		{c1, shop, "create a ConfigMap in the name of c2", create(configMap, markedBy("USER-OF-c2", "c1")), both,
			"the annotation " + markKey + ": "},
		{c1, shop, "delete a ConfigMap of c2", remove(configMap, "of-c2"), policy, notCopy},
		{c1, shop, "replace a ConfigMap of c2", replace(configMap, "of-c2", marked("c1")), policy, notCopy},
	}
	for _, k := range []kind{configMap, secret, account, claim, service, slice, ingress} {
		all = append(all,
			attempt{c1, shop, "create a copy of a " + string(k), create(k, copied(k, "c1")), allowed, ""},
			attempt{c1, shop, "create a " + string(k) + " without marks", create(k, ""), policy, mustHave},
			attempt{c1, shop, "create a copy of a " + string(k) + " with c2's ID",
				create(k, marked("c2")), policy, notItsID},
			attempt{c1, shop, "delete a " + string(k) + " of the target", remove(k, "web"), policy, notCopy},
			attempt{c1, left, "create a copy of a " + string(k), create(k, marked("c1")), rbac, ""},
			attempt{c1, system, "create a copy of a " + string(k), create(k, marked("c1")), rbac, ""},
		)
	}
	return all
}

// endpoints are attempts to send the users of a Service elsewhere.
func endpoints() []attempt {
	const service = `"labels":{"kubernetes.io/service-name":"web"}`
	return []attempt{
		{c1, shop, "create endpoints of a Service of the target", create(slice, endpointsOf("web", "c1")), webhook,
			notItsService},
		{c1, shop, "create endpoints of a Service of c2", create(slice, endpointsOf("of-c2", "c1")), webhook,
			notItsService},
		{c1, shop, "create endpoints of a Service that does not exist", create(slice, endpointsOf("none", "c1")),
			webhook, "write the Service first"},
		{c1, shop, "create endpoints that name no Service", create(slice, marked("c1")), webhook, "names no Service"},
		{c1, shop, "change its endpoints", move("of-c1"), allowed, ""},
		{c1, shop, "move its endpoints to a Service of the target", patch(slice, "of-c1", service), webhook,
			notItsService},
		{c1, shop, "change endpoints that an earlier version let it add to a Service of the target", move("old-of-c1"),
			webhook, notItsService},
		{c1, shop, "annotate these endpoints", annotate(slice, "old-of-c1"), allowed, ""},
		{c1, shop, "delete these endpoints", remove(slice, "old-of-c1"), allowed, ""},
		{c1, shop, "change endpoints of c2", move("of-c2"), policy, notCopy},
	}
}

// addressesOfEndpoints are attempts to lead the users of its own Services to others in the target.
func addressesOfEndpoints() []attempt {
	var all []attempt
	for _, a := range []struct{ what, addressType, address, want, says string }{
		{"a pod of another cluster", "IPv4", "10.4.5.6", allowed, ""},
		{"a delegate of c1", "IPv4", "10.1.9.8", allowed, ""},
		{"a pod of the target", "IPv4", "10.1.9.7", webhook, inUse + " a pod"},
		{"the same pod by NAT64", "IPv6", "64:ff9b::a01:907", webhook, inUse + " a pod"},
		{"a node", "IPv4", "10.1.8.1", webhook, inUse + " a node"},
		{"a bridge of a node", "IPv4", "10.1.9.1", webhook, inUse + " a node"},
		{"a Service of the target", "IPv4", "10.1.7.1", webhook, inUse + " a Service"},
		{"an API server", "IPv4", "10.1.6.1", webhook, inUse + " an API server"},
		{"a multicast address", "IPv4", "239.1.1.1", webhook, "a multicast address"},
		{"the metadata of a cloud by NAT64", "IPv6", "64:ff9b::a9fe:a9fe", webhook, "a link-local address"},
		{"an address out of range", "IPv4", "192.0.2.9", webhook, "sources.endpoints.allowedCIDRs"},
		{"a host name", "FQDN", "db.other", policy, "with addresses only"},
	} {
		all = append(all, attempt{c1, shop, "create endpoints that lead to " + a.what,
			leadTo(a.addressType, a.address), a.want, a.says})
	}
	return append(all,
		attempt{c1, shop, "add the address of a pod of the target to its endpoints",
			lead("of-c1", `"addresses":["10.1.9.7"]`), webhook, inUse + " a pod"},
		attempt{c1, shop, "remove all its endpoints", without("of-c1", "[]"), allowed, ""},
		attempt{c1, shop, "remove its endpoints as a field", without("of-c1", "null"), allowed, ""},
		attempt{c1, shop, "name a node in its endpoints", lead("of-c1",
			`"addresses":["10.4.5.6"],"nodeName":"machine"`), policy, "with addresses only"},
		attempt{c1, shop, "name a pod in its endpoints",
			lead("of-c1", `"addresses":["10.4.5.6"],"targetRef":{"kind":"Pod","name":"used"}`), policy,
			"with addresses only"},
		attempt{c1, shop, "create a " + string(named), create(named, marked("c1")), policy, "without external IPs"},
		attempt{c1, shop, "create a " + string(balanced), create(balanced, marked("c1")), policy,
			"without external IPs"},
		attempt{c1, shop, "create a " + string(selective), create(selective, marked("c1")), allowed, ""},
		attempt{c1, shop, "create a " + string(greedy), create(greedy, marked("c1")), policy,
			"not delegates of this source"})
}

func secretTypes() []attempt {
	var all []attempt
	for _, kubernetesOwn := range []struct{ name, data string }{
		{"kubernetes.io/dockerconfigjson", `".dockerconfigjson":"e30="`},
		{"kubernetes.io/dockercfg", `".dockercfg":"e30="`},
		{"kubernetes.io/tls", `"tls.crt":"","tls.key":""`},
		{"kubernetes.io/basic-auth", `"username":"YQ=="`},
		{"kubernetes.io/ssh-auth", `"ssh-privatekey":"YQ=="`},
	} {
		all = append(all, attempt{c1, shop, "create a Secret of type " + kubernetesOwn.name,
			create(typed(kubernetesOwn.name, kubernetesOwn.data), marked("c1")), allowed, ""})
	}
	for _, refused := range []string{"bootstrap.kubernetes.io/token", "helm.sh/release.v1", "example.org/any"} {
		all = append(all, attempt{c1, shop, "create a Secret of type " + refused,
			create(typed(refused, ""), marked("c1")), policy, badType})
	}
	token := typed("kubernetes.io/service-account-token", "")
	return append(all,
		attempt{c1, shop, "create a Secret for a token of a service account",
			create(token, marked("c1", `"kubernetes.io/service-account.name":"web"`)), policy, badType},
		attempt{c1, shop, "change a Secret whose type an earlier version could make",
			replace(typed("example.org/any", ""), "typed-of-c1", marked("c1")), allowed, ""})
}

func keys() []attempt {
	replicated := `"replicator.v1.mittwald.de/replicate-from":"kube-system/web"`
	argo := `"argocd.argoproj.io/tracking-id":"x"`
	role := `"eks.amazonaws.com/role-arn":"x"`
	return []attempt{
		{c1, shop, "create a Secret that a replicator fills",
			create(secret, marked("c1", replicated)), policy, badKeys},
		{c1, shop, "create a Secret that Argo CD takes for a cluster",
			create(secret, withLabel("c1", `"argocd.argoproj.io/secret-type":"cluster"`)), policy, badKeys},
		{c1, shop, "create a service account with a role of the cloud", create(account, marked("c1", role)), policy,
			badKeys},
		{c1, shop, "add a role of the cloud to its service account",
			patch(account, "of-c1", `"annotations":{`+role+`}`),
			policy, badKeys},
		{c1, shop, "create a ConfigMap with a user's key",
			create(configMap, marked("c1", `"example.org/a":"b"`)), allowed,
			""},
		{c1, shop, "change its ConfigMap, to which an administrator added a key of Argo CD",
			replace(configMap, "tracked-of-c1", marked("c1", argo)), allowed, ""},
		{c1, shop, "change the value of that key", replace(configMap, "tracked-of-c1",
			marked("c1", strings.Replace(argo, `"x"`, `"y"`, 1))), policy, badKeys},
	}
}

// holds are attempts to hold objects that others want to delete.
func holds() []attempt {
	const finalizers, claims = `"finalizers":["example.org/hold"]`, `"finalizers":["kubernetes.io/pvc-protection"]`
	all := []attempt{
		{c1, shop, "create a claim with the finalizer of claims", create(claim, marked("c1")+","+claims), allowed, ""},
		{c1, shop, "change its ConfigMap, to which an administrator added a finalizer and an owner",
			replace(configMap, "held-of-c1", marked("c1")+","+finalizers+","+owners), allowed, ""},
		{c1, shop, "take these off", replace(configMap, "held-of-c1", marked("c1")), allowed, ""},
		{c1, shop, "make that owner block its own deletion", replace(configMap, "held-of-c1", marked("c1")+","+
			strings.Replace(owners, `"uid"`, `"blockOwnerDeletion":true,"uid"`, 1)), policy, badOwner},
	}
	for _, k := range []kind{configMap, slice, chaperon} {
		mine := copied(k, "c1")
		all = append(all,
			attempt{c1, shop, "create a " + string(k) + " with a finalizer", create(k, mine+","+finalizers), policy,
				badFinalizer},
			attempt{c1, shop, "create a " + string(k) + " with an owner", create(k, mine+","+owners), policy, badOwner})
	}
	return append(all,
		attempt{c1, shop, "add a finalizer to its PodChaperon", patch(chaperon, "of-c1", finalizers), policy,
			badFinalizer},
		attempt{c1, shop, "add the finalizer of claims to its PodChaperon", patch(chaperon, "of-c1", claims), policy,
			badFinalizer},
		attempt{c1, shop, "create a ConfigMap with the finalizer of claims",
			create(configMap, marked("c1")+","+claims), policy, badFinalizer},
		attempt{c1, shop, "add an owner to its service account", patch(account, "of-c1", owners), policy, badOwner})
}

func reads() []attempt {
	var all []attempt
	for _, k := range []kind{secret, configMap} {
		all = append(all,
			attempt{c1, shop, "read a " + string(k), get(k, "web"), rbac, ""},
			attempt{c1, shop, "list " + string(k) + "s", list(k), rbac, ""},
			attempt{c1, shop, "watch " + string(k) + "s", watch(k), rbac, ""},
			attempt{c1, shop, "patch its " + string(k), annotate(k, "of-c1"), rbac, ""},
			attempt{c1, shop, "delete all " + string(k) + "s", removeAll(k), rbac, ""},
			attempt{c1, shop, "overwrite a " + string(k) + " of the target",
				replace(k, "web", marked("c1")), policy, notCopy},
			attempt{c1, system, "overwrite a " + string(k) + " of the target",
				replace(k, "web", marked("c1")), rbac, ""},
			attempt{c1, other, "read a " + string(k), get(k, "web"), rbac, ""})
	}
	return append(slices.Concat(all, readsOfCopies(), renewals(c1)),
		attempt{c1, shop, "read a service account", get(account, "web"), allowed, ""},
		attempt{c1, other, "read a service account", get(account, "web"), rbac, ""},
		attempt{c1, "", "list nodes", read("/api/v1/nodes"), rbac, ""},
		attempt{c1, "", "list namespaces", read("/api/v1/namespaces"), rbac, ""},
		attempt{c1, "", "read the ClusterSummary", read(project + "clustersummaries"), allowed, ""},
		attempt{c1, "", "list SourceGrants", read(project + "sourcegrants"), rbac, ""},
		attempt{c1, leases, "list Leases", list(lease), rbac, ""},
		attempt{c1, leases, "read a Lease of another source", get(lease, "source-of-another"), rbac, ""},
		attempt{c1, leases, "write a Lease of another source", replace(lease, "source-of-another", ""), rbac, ""},
		attempt{c1, leases, "write the Lease of the target's manager", replace(lease, "manager", ""), rbac, ""},
		attempt{c1, leases, "create a Lease", create(lease, ""), rbac, ""},
		attempt{c1, leases, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""})
}

// renewals are attempts of a source with its own Lease.
func renewals(who string) []attempt {
	return []attempt{
		{who, leases, "renew its Lease", renew(""), allowed, ""},
		{who, leases, "add a finalizer to its Lease", renew(`,"finalizers":["example.org/hold"]`), onLeases, badLease},
		{who, leases, "add an owner to its Lease", renew("," + owners), onLeases, badLease},
	}
}

func pods() []attempt {
	var all []attempt
	for _, in := range []struct{ where, want string }{{shop, allowed}, {left, allowed}, {other, rbac}, {system, rbac}} {
		all = append(all,
			attempt{c1, in.where, "read the logs of a pod", get(pod, "web/log"), in.want, ""},
			attempt{c1, in.where, "exec into a pod", post(pod, "web/exec?command=id&stdout=true"), in.want, ""})
	}
	return append(all,
		attempt{c1, shop, "create a pod", create(pod, marked("c1")), rbac, ""},
		attempt{c1, shop, "delete a pod", remove(pod, "web"), rbac, ""},
		attempt{c1, shop, "evict a pod", post(pod, "web/eviction"+dryRun), rbac, ""},
		attempt{c1, shop, "attach to a pod", post(pod, "web/attach?stdout=true"), rbac, ""},
		attempt{c1, shop, "forward a port of a pod", post(pod, "web/portforward"), rbac, ""},
		attempt{c1, shop, "add an ephemeral container", patch(pod, "web/ephemeralcontainers", ""), rbac, ""},
		attempt{c1, system, "create a pod", create(pod, marked("c1")), rbac, ""})
}

// tokens are attempts of sources that connect made, which may make tokens for their own accounts.
func tokens() []attempt {
	return []attempt{
		{c1, own, "make a token of its own service account for ten minutes", tokenFor("c1", 600), allowed, ""},
		{c1, own, "make a token of its own service account for a day", tokenFor("c1", 86400), allowed, ""},
		{
			c1,
			own,
			"make a token of its own service account for a day and a second",
			tokenFor("c1", 86401),
			capped,
			aDay,
		},
		{c1, own, "make a token of its own service account for a year", tokenFor("c1", 31536000), capped, aDay},
		{c1, own, "make a token of c2's service account for ten minutes", tokenFor("c2", 600), rbac, ""},
		{c1, own, "give itself rights on another service account", request{
			verb: "PATCH", contentType: mediaMerge, body: `{}`,
			path: "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles/renewal-of-c1" + dryRun,
		}, rbac, ""},
	}
}

func escalations() []attempt {
	token := func(name string) request { return post(account, name+"/token"+dryRun) }
	impersonate := get(secret, "web")
	impersonate.as = "admin"
	return []attempt{
		{c1, shop, "bind cluster-admin", create(binding, ""), rbac, ""},
		{c1, shop, "create a Source", create(sourceKind, ""), rbac, ""},
		{c1, shop, "make a token of a service account of the target", token("web"), rbac, ""},
		{c1, shop, "make a token of the service account that it copied", token("of-c1"), rbac, ""},
		{c1, own, "make a token of c2's service account", token("c2"), rbac, ""},
		{c1, own, "make a token of the manager's service account", token("multicluster-scheduler-controller-manager"),
			rbac, ""},
		{c1, shop, "impersonate an administrator", impersonate, rbac, ""},
		{c1, "", "change a policy", request{
			verb: "PATCH", contentType: mediaMerge, body: `{}`,
			path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/multicluster-scheduler-source" +
				dryRun,
		}, rbac, ""},
	}
}
