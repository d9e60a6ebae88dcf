import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parse } from 'yaml'
import { agentSandboxPrograms } from './agent-sandbox-programs.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'
import type { KubernetesCluster } from './kubernetes.ts'

/** Installs the resources of agent-sandbox into a cluster and starts its controller beside it; stop it before the cluster. */
export async function startAgentSandbox(cluster: Pick<KubernetesCluster, 'ask' | 'kubeconfig'>): Promise<KeptServer> {
  const { controller, definitions } = await agentSandboxPrograms()
  for (const file of readdirSync(definitions)) await define(cluster, readFileSync(join(definitions, file), 'utf8'))
  const [metrics, probes] = [await freePort(), await freePort()]
  return keepServer({
    name: 'agent-sandbox-controller',
    folder: mkdtempSync(join(tmpdir(), 'gantry-agent-sandbox-')),
    lastSignal: 'TERM',
    command: [
      controller,
      `--kubeconfig=${cluster.kubeconfig}`,
      '--extensions',
      '--leader-elect=false',
      '--enable-webhook=false',
      `--metrics-bind-address=127.0.0.1:${metrics}`,
      `--health-probe-bind-address=127.0.0.1:${probes}`,
    ],
    isReady: () =>
      fetch(`http://127.0.0.1:${probes}/readyz`, { signal: AbortSignal.timeout(2_000) }).then(
        ({ ok }) => ok,
        () => false,
      ),
  })
}

interface Definition {
  readonly metadata: { readonly name: string }
  readonly spec: object
}

const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Without conversion between versions, which needs a webhook: only v1beta1 is used. */
async function define({ ask }: Pick<KubernetesCluster, 'ask'>, text: string): Promise<void> {
  const definition: Definition = parse(text)
  const { metadata } = definition
  await ask('POST', definitionsPath, { ...definition, spec: { ...definition.spec, conversion: { strategy: 'None' } } })
  const isEstablished = async (): Promise<boolean> => {
    const { status } = (await ask('GET', `${definitionsPath}/${metadata.name}`)) as {
      status?: { conditions?: readonly { type: string; status: string }[] }
    }
    return status?.conditions?.some((one) => one.type === 'Established' && one.status === 'True') === true
  }
  while (!(await isEstablished())) await pause(20)
}
