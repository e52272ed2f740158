package attempts

import "strings"

func ofTheSecondSource() []Attempt {
	return []Attempt{
		{C2, Shop, "create a PodChaperon", create(chaperon, labelled("c2")), allowed, ""},
		{C2, Other, "create a PodChaperon", create(chaperon, labelled("c2")), allowed, ""},
		{C2, system, "create a PodChaperon", create(chaperon, labelled("c2")), rbac, ""},
		{C2, own, "create a PodChaperon", create(chaperon, labelled("c2")), rbac, ""},
		{C2, leases, "create a PodChaperon", create(chaperon, labelled("c2")), rbac, ""},
		{C2, Shop, "create a PodChaperon with the cluster ID of c1",
			create(chaperon, labelled("c1")), Policy, notItsID},
		{C2, Shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), Policy, notYours},
		{C2, Shop, "end the delegate of a PodChaperon of c1", patch(chaperon, "of-c1",
			`"annotations":{"multicluster.admiralty.io/deletion-grace-period-seconds":"0"}`), Policy, notYours},
		{C2, Shop, "delete its PodChaperon", remove(chaperon, "of-c2"), allowed, ""},
		{C2, Shop, "delete a Secret of c1", remove(secret, "of-c1"), Policy, notCopy},
		{C2, Shop, "replace a Secret of c1", replace(secret, "of-c1", marked("c2")), Policy, notCopy},
		{C2, Shop, "create a copy of a Secret", create(secret, marked("c2")), allowed, ""},
		{C2, Shop, "read the logs of a delegate of c1 (as of any pod there)", get(pod, "web/log"), allowed, ""},
	}
}

func ofASource() []Attempt {
	return append([]Attempt{
		{C3, Shop, "create a PodChaperon", create(chaperon, labelled("c3")), allowed, ""},
		{C3, Shop, "create a PodChaperon with the cluster ID of c1",
			create(chaperon, labelled("c1")), Policy, notItsID},
		{C3, Shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), Policy, notYours},
		{C3, Shop, "create a copy of a Secret", create(secret, marked("c3")), allowed, ""},
		{C3, Shop, "create a copy of a Secret with c1's ID", create(secret, marked("c1")), Policy, notItsID},
		{C3, Shop, "delete a Secret of c1", remove(secret, "of-c1"), Policy, notCopy},
		{C3, Shop, "create a pod", create(pod, marked("c3")), rbac, ""},
		{C3, Shop, "exec into a pod", post(pod, "web/exec?command=id&stdout=true"), allowed, ""},
		{C3, Shop, "make a token of its own service account for a day", tokenFor(accountOf+"c3", 86400), allowed, ""},
		{C3, Shop, "make a token of its own service account for a year", tokenFor(accountOf+"c3", 31536000), Capped,
			aDay},
		{C3, Shop, "make a token of another service account", tokenFor("web", 600), rbac, ""},
		{C3, Other, "create a PodChaperon", create(chaperon, labelled("c3")), rbac, ""},
		{C3, Other, "list PodChaperons", list(chaperon), rbac, ""},
		{C3, Other, "read the logs of a pod", get(pod, "web/log"), rbac, ""},
		{C3, system, "create a copy of a Secret", create(secret, marked("c3")), rbac, ""},
	}, renewals(C3)...)
}

func withoutAClusterID() []Attempt {
	return []Attempt{
		{WithoutID, Shop, "create a PodChaperon with any cluster ID", create(chaperon, labelled("c1")), allowed, ""},
		{WithoutID, Shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), allowed, ""},
		{WithoutID, Shop, "delete a Secret of c1", remove(secret, "of-c1"), Policy, notCopy},
		{WithoutID, Shop, "create a copy of a Secret with any cluster ID", create(secret, marked("c9")), allowed, ""},
		{WithoutID, Other, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
	}
}

func ofATenant() []Attempt {
	var all []Attempt
	for _, k := range []kind{configMap, secret, account, claim, service, ingress} {
		all = append(all, Attempt{
			Tenant, Shop, "create a " + string(k) + " with the mark of c1",
			create(k, markedBy("USER-OF-c1", "c1")), Mark,
			onlyWhom,
		})
	}
	return append(all,
		Attempt{Tenant, Shop, "add the mark of c1 to its Secret",
			patch(secret, "web", `"annotations":{"`+markKey+`":"USER-OF-c1"}`), Mark, onlyWhom},
		Attempt{Tenant, Shop, "take the mark off a copy", patch(secret, "of-c1", `"annotations":null`), allowed, ""},
		Attempt{Tenant, Shop, "change a copy, and keep the mark", annotate(secret, "of-c1"), allowed, ""},
		Attempt{Tenant, Shop, "delete a copy of c1", remove(secret, "of-c1"), allowed, ""},
		Attempt{Tenant, Shop, "create a Secret of any type", create(typed("example.org/any", ""), ""), allowed, ""},
		Attempt{Tenant, Shop, "create a Service of type LoadBalancer", create(balancer, ""), allowed, ""},
		Attempt{Tenant, Shop, "create a pod", create(pod, ""), allowed, ""},
		Attempt{Tenant, Shop, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		Attempt{Tenant, Shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), rbac, ""},
		Attempt{Tenant, Shop, "create a Source", create(sourceKind, ""), rbac, ""},
		Attempt{Tenant, Other, "read a Secret", get(secret, "web"), rbac, ""})
}

// readsOfCopies are attempts to read objects of the kinds that a source may read where it acts.
func readsOfCopies() []Attempt {
	var all []Attempt
	for _, k := range []kind{claim, service, slice, ingress} {
		everywhere, plural := read(strings.Replace(k.path(), "namespaces/NS/", "", 1)), plural(k)
		watched := read(everywhere.path + "?watch=true")
		all = append(all,
			Attempt{C1, Shop, "list " + plural, list(k), allowed, ""},
			Attempt{C1, Deselected, "list " + plural, list(k), allowed, ""},
			Attempt{C1, Other, "list " + plural, list(k), rbac, ""},
			Attempt{C1, Other, "read the " + string(k) + " web", get(k, "web"), rbac, ""},
			Attempt{C1, "", "list " + plural + " of the whole cluster", everywhere, rbac, ""},
			Attempt{C1, "", "watch " + plural + " of the whole cluster", watched, rbac, ""})
	}
	return all
}

// plural returns the name of several objects of a kind.
func plural(k kind) string {
	if k == ingress {
		return "Ingresses"
	}
	return string(k) + "s"
}
