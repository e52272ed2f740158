package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The type of the configuration file.
const (
	APIVersion = "config.multicluster.admiralty.io/v1alpha1"
	Kind       = "Configuration"

	ownDomain = "multicluster.admiralty.io"
)

// Load decodes a configuration file strictly (YAML or JSON), sets the defaults, and validates the result. The error
// names the wrong field.
func Load(data []byte) (*Configuration, error) {
	config, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	if config.APIVersion != APIVersion || config.Kind != Kind {
		return nil, fmt.Errorf(
			"the configuration has the apiVersion %q and the kind %q; this build reads apiVersion %q, kind %q",
			config.APIVersion, config.Kind, APIVersion, Kind)
	}
	SetDefaults(config)
	if err := Validate(config).ToAggregate(); err != nil {
		return nil, fmt.Errorf("validating the configuration: %w", err)
	}
	return config, nil
}

func decode(data []byte) (*Configuration, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	config := &Configuration{}
	unknown, err := json.UnmarshalStrict(asJSON, config)
	return config, errors.Join(append(unknown, err)...)
}

// Default returns the configuration of an empty file.
func Default() *Configuration {
	config := &Configuration{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}}
	SetDefaults(config)
	return config
}

// SetDefaults sets the documented defaults of fields that are not set.
func SetDefaults(c *Configuration) {
	setDefault(&c.Roles.Source, new(true))
	setDefault(&c.Roles.Target, new(true))
	setDefault(&c.LeaderElection.Enabled, new(true))
	setDefault(&c.LeaderElection.Name, "multicluster-scheduler")
	setDefault(&c.Metrics.BindAddress, ":8080")
	setDefault(&c.Health.BindAddress, ":8081")
	setDefault(&c.Webhook.Port, 9443)
	setDefault(&c.KubeletAPI.Enabled, new(true))
	setDefault(&c.KubeletAPI.Port, 10250)
	setDefault(&c.Placement.Strategy, Spread)
	setDefault(&c.Placement.Timeout, metav1.Duration{Duration: time.Minute})
	setDefault(&c.DaemonSets.Acknowledge, new(true))
	setDefault(&c.Proof.SecretName, "multicluster-scheduler-proof")
	setDefault(&c.Tokens.SecretName, "multicluster-scheduler-tokens")
	setDefault(&c.SourceController.Enabled, new(true))
	setDefault(&c.GarbageCollection.Enabled, new(true))
	setDefault(&c.Endpoints.Check, new(true))
	setDefault(&c.SourceController.ClusterRoleName, "multicluster-scheduler-source")
	setDefault(&c.SourceController.SummaryViewerClusterRoleName, "multicluster-scheduler-cluster-summary-viewer")
	setDefault(&c.SourceController.LeavingClusterRoleName, "multicluster-scheduler-source-leaving")
	setDefault(&c.SourceController.EarlierClusterRoleName, "multicluster-scheduler-source-earlier")
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns the errors of a configuration whose defaults are set.
func Validate(c *Configuration) field.ErrorList {
	var errs field.ErrorList
	if !*c.Roles.Source && !*c.Roles.Target {
		errs = append(errs, field.Required(field.NewPath("roles"),
			"set source or target to true, or both: a manager without a role does nothing"))
	}
	errs = append(errs, validateLabelValue(field.NewPath("clusterName"), c.ClusterName)...)
	errs = append(errs, validateLabelValue(field.NewPath("clusterID"), c.ClusterID)...)
	errs = append(errs, validatePort(field.NewPath("webhook", "port"), c.Webhook.Port)...)
	errs = append(errs, validatePort(field.NewPath("kubeletAPI", "port"), c.KubeletAPI.Port)...)
	errs = append(errs, validatePlacement(field.NewPath("placement"), c.Placement)...)
	errs = append(errs, validateCapacity(field.NewPath("capacity"), c.Capacity)...)
	errs = append(errs, validateTenants(field.NewPath("tenants"), &c.Tenants)...)
	errs = append(errs, validateCIDRs(field.NewPath("endpoints", "allowedCIDRs"), c.Endpoints.AllowedCIDRs)...)
	return append(errs, validateCertificate(field.NewPath("webhook"), c.Webhook)...)
}

func validateLabelValue(path *field.Path, value string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

func validatePort(path *field.Path, port int) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsValidPortNum(port) {
		errs = append(errs, field.Invalid(path, port, message))
	}
	return errs
}

func validatePlacement(path *field.Path, p Placement) field.ErrorList {
	var errs field.ErrorList
	if p.Strategy != Spread && p.Strategy != Pack {
		errs = append(errs, field.NotSupported(path.Child("strategy"), p.Strategy, []PlacementStrategy{Spread, Pack}))
	}
	if p.Timeout.Duration < time.Second {
		errs = append(errs, field.Invalid(path.Child("timeout"), p.Timeout.String(), "must be at least 1s"))
	}
	return append(errs, validateAnnotations(path.Child("annotationsFromTargets"), p.AnnotationsFromTargets)...)
}

// maxAnnotations bounds the annotations that may be named.
const maxAnnotations = 32

// validateAnnotations accepts keys of annotations, and domains with "/*".
func validateAnnotations(path *field.Path, patterns []string) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxAnnotations {
		errs = append(errs, field.TooMany(path, len(patterns), maxAnnotations))
	}
	for i, pattern := range patterns {
		key := pattern
		if domain, ok := strings.CutSuffix(pattern, "/*"); ok {
			key = domain + "/any"
		}
		switch {
		case len(validation.IsQualifiedName(strings.ToLower(key))) > 0:
			errs = append(errs, field.Invalid(path.Index(i), pattern,
				`must be the key of an annotation, or a domain and "/*", as in example.com/*`))
		case strings.HasPrefix(key, ownDomain+"/"), key == corev1.LastAppliedConfigAnnotation:
			errs = append(errs, field.Forbidden(path.Index(i), "pods never take over annotations of "+ownDomain+
				", nor "+corev1.LastAppliedConfigAnnotation))
		}
	}
	return errs
}

func validateCapacity(path *field.Path, c Capacity) field.ErrorList {
	if _, err := c.ExcludedLabels(); err != nil {
		return field.ErrorList{field.Invalid(path.Child("excludedLabelsRegexp"), c.ExcludedLabelsRegexp,
			"must be a regular expression (RE2): "+err.Error())}
	}
	return nil
}

// ExcludedLabels returns the compiled ExcludedLabelsRegexp, or nil if the field is empty and excludes nothing.
func (c Capacity) ExcludedLabels() (*regexp.Regexp, error) {
	if c.ExcludedLabelsRegexp == "" {
		return nil, nil //nolint:nilnil // documented
	}
	return regexp.Compile(c.ExcludedLabelsRegexp)
}

func validateCertificate(path *field.Path, w Webhook) field.ErrorList {
	if w.SelfManaged == nil {
		if w.CertDir == "" {
			return field.ErrorList{field.Required(path, "set certDir or selfManaged: the webhook needs a certificate")}
		}
		return nil
	}
	if w.CertDir != "" {
		return field.ErrorList{field.Forbidden(path.Child("certDir"), "set only one of certDir and selfManaged")}
	}
	var errs field.ErrorList
	names := map[string]string{
		"secretName":               w.SelfManaged.SecretName,
		"serviceName":              w.SelfManaged.ServiceName,
		"webhookConfigurationName": w.SelfManaged.WebhookConfigurationName,
	}
	for _, name := range []string{"secretName", "serviceName", "webhookConfigurationName"} {
		if names[name] == "" {
			errs = append(errs, field.Required(path.Child("selfManaged", name), ""))
		}
	}
	return errs
}
