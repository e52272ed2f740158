package attempts

import "strings"

func ofTheSecondSource() []attempt {
	return []attempt{
		{c2, shop, "create a PodChaperon", create(chaperon, labelled("c2")), allowed, ""},
		{c2, other, "create a PodChaperon", create(chaperon, labelled("c2")), allowed, ""},
		{c2, system, "create a PodChaperon", create(chaperon, labelled("c2")), rbac, ""},
		{c2, own, "create a PodChaperon", create(chaperon, labelled("c2")), rbac, ""},
		{c2, leases, "create a PodChaperon", create(chaperon, labelled("c2")), rbac, ""},
		{c2, shop, "create a PodChaperon with the cluster ID of c1",
			create(chaperon, labelled("c1")), policy, notItsID},
		{c2, shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), policy, notYours},
		{c2, shop, "end the delegate of a PodChaperon of c1", patch(chaperon, "of-c1",
			`"annotations":{"multicluster.admiralty.io/deletion-grace-period-seconds":"0"}`), policy, notYours},
		{c2, shop, "delete its PodChaperon", remove(chaperon, "of-c2"), allowed, ""},
		{c2, shop, "delete a Secret of c1", remove(secret, "of-c1"), policy, notCopy},
		{c2, shop, "replace a Secret of c1", replace(secret, "of-c1", marked("c2")), policy, notCopy},
		{c2, shop, "create a copy of a Secret", create(secret, marked("c2")), allowed, ""},
		{c2, shop, "read the logs of a delegate of c1 (as of any pod there)", get(pod, "web/log"), allowed, ""},
	}
}

func ofASource() []attempt {
	return append([]attempt{
		{c3, shop, "create a PodChaperon", create(chaperon, labelled("c3")), allowed, ""},
		{c3, shop, "create a PodChaperon with the cluster ID of c1",
			create(chaperon, labelled("c1")), policy, notItsID},
		{c3, shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), policy, notYours},
		{c3, shop, "create a copy of a Secret", create(secret, marked("c3")), allowed, ""},
		{c3, shop, "create a copy of a Secret with c1's ID", create(secret, marked("c1")), policy, notItsID},
		{c3, shop, "delete a Secret of c1", remove(secret, "of-c1"), policy, notCopy},
		{c3, shop, "create a pod", create(pod, marked("c3")), rbac, ""},
		{c3, shop, "exec into a pod", post(pod, "web/exec?command=id&stdout=true"), allowed, ""},
		{c3, shop, "make a token of its own service account for a day", tokenFor("c3", 86400), allowed, ""},
		{c3, shop, "make a token of its own service account for a year", tokenFor("c3", 31536000), capped, aDay},
		{c3, shop, "make a token of another service account", tokenFor("web", 600), rbac, ""},
		{c3, other, "create a PodChaperon", create(chaperon, labelled("c3")), rbac, ""},
		{c3, other, "list PodChaperons", list(chaperon), rbac, ""},
		{c3, other, "read the logs of a pod", get(pod, "web/log"), rbac, ""},
		{c3, system, "create a copy of a Secret", create(secret, marked("c3")), rbac, ""},
	}, renewals(c3)...)
}

func withoutAClusterID() []attempt {
	return []attempt{
		{withoutID, shop, "create a PodChaperon with any cluster ID", create(chaperon, labelled("c1")), allowed, ""},
		{withoutID, shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), allowed, ""},
		{withoutID, shop, "delete a Secret of c1", remove(secret, "of-c1"), policy, notCopy},
		{withoutID, shop, "create a copy of a Secret with any cluster ID", create(secret, marked("c9")), allowed, ""},
		{withoutID, other, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
	}
}

func ofATenant() []attempt {
	var all []attempt
	for _, k := range []kind{configMap, secret, account, claim, service, ingress} {
		all = append(all, attempt{
			tenant, shop, "create a " + string(k) + " with the mark of c1",
			create(k, markedBy("USER-OF-c1", "c1")), mark,
			onlyWhom,
		})
	}
	return append(all,
		attempt{tenant, shop, "add the mark of c1 to its Secret",
			patch(secret, "web", `"annotations":{"`+markKey+`":"USER-OF-c1"}`), mark, onlyWhom},
		attempt{tenant, shop, "take the mark off a copy", patch(secret, "of-c1", `"annotations":null`), allowed, ""},
		attempt{tenant, shop, "change a copy, and keep the mark", annotate(secret, "of-c1"), allowed, ""},
		attempt{tenant, shop, "delete a copy of c1", remove(secret, "of-c1"), allowed, ""},
		attempt{tenant, shop, "create a Secret of any type", create(typed("example.org/any", ""), ""), allowed, ""},
		attempt{tenant, shop, "create a Service of type LoadBalancer", create(balancer, ""), allowed, ""},
		attempt{tenant, shop, "create a pod", create(pod, ""), allowed, ""},
		attempt{tenant, shop, "create a PodChaperon", create(chaperon, labelled("c1")), rbac, ""},
		attempt{tenant, shop, "delete a PodChaperon of c1", remove(chaperon, "of-c1"), rbac, ""},
		attempt{tenant, shop, "create a Source", create(sourceKind, ""), rbac, ""},
		attempt{tenant, other, "read a Secret", get(secret, "web"), rbac, ""})
}

// readsOfCopies are attempts to read objects of the kinds that a source may read where it acts.
func readsOfCopies() []attempt {
	var all []attempt
	for _, k := range []kind{claim, service, slice, ingress} {
		everywhere, plural := read(strings.Replace(k.path(), "namespaces/NS/", "", 1)), plural(k)
		watched := read(everywhere.path + "?watch=true")
		all = append(all,
			attempt{c1, shop, "list " + plural, list(k), allowed, ""},
			attempt{c1, left, "list " + plural, list(k), allowed, ""},
			attempt{c1, other, "list " + plural, list(k), rbac, ""},
			attempt{c1, other, "read the " + string(k) + " web", get(k, "web"), rbac, ""},
			attempt{c1, "", "list " + plural + " of the whole cluster", everywhere, rbac, ""},
			attempt{c1, "", "watch " + plural + " of the whole cluster", watched, rbac, ""})
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
