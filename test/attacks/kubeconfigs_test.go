// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// changeKubeconfig changes the kubeconfig of the Cluster.
func changeKubeconfig(s *stage.Stage, change func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo)) {
	s.T.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}}
	s.Change(secret, func() {
		config, err := clientcmd.Load(secret.Data["value"])
		s.Expect(err).ToNot(HaveOccurred())
		context := config.Contexts[config.CurrentContext]
		change(config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo])
		secret.Data["value"], err = clientcmd.Write(*config)
		s.Expect(err).ToNot(HaveOccurred())
	})
}

// A tenant who may write the Secret of a kubeconfig decides that the server is not verified, or that another user acts. Without
// verification, any server on the path can report that Nodes do not exist. The check reports it, and a flag refuses it.
func TestKubeconfigs_Insecure_AreReportedOrRefused(t *testing.T) {
	t.Parallel()
	reachable := func(s *stage.Stage, check *remedyv1.MachineHealthCheck) func() string {
		return func() string {
			found := meta.FindStatusCondition(stage.Get(s, check)().Status.Conditions, remedyv1.ClusterReachableCondition)
			if found == nil {
				return ""
			}
			return string(found.Status) + " " + found.Reason + " " + found.Message
		}
	}
	for _, refuse := range []bool{false, true} {
		s := stage.New(t, func(s *stage.Stage) { s.RefuseInsecure = refuse })
		changeKubeconfig(s, func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil
			u.Impersonate, u.ImpersonateGroups = "another-user", []string{"system:masters"}
		})
		s.CreateMachine("m-1")
		check := s.CreateCheck("workers")
		s.Start().NeverIdle = refuse
		wanted := "True ClusterReachable The kubeconfig is insecure: impersonation, insecure-skip-tls-verify"
		if refuse {
			wanted = "False KubeconfigRefused The kubeconfig is rejected: Secret " + s.Namespace +
				"/prod-kubeconfig: the kubeconfig has impersonation, insecure-skip-tls-verify, and the manager runs with " +
				"--insecure-kubeconfigs=Refuse"
		}
		s.Eventually(reachable(s, check)).Should(Equal(wanted))
		outcome(t, "a kubeconfig without verification for another user: %s", reachable(s, check)())
	}
}
