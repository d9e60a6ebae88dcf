import { setTimeout as delay } from 'node:timers/promises'
import type { SandboxLimits } from '@gantry/contract'
import type { Runtime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createKubernetesRuntime } from '@gantry/sandbox-kubernetes'
import { startAgentSandbox } from '../scripts/engines/agent-sandbox.ts'
import { type KubernetesCluster, missingKubernetes, startKubernetes } from '../scripts/engines/kubernetes.ts'
import { buildContainerdFlavour } from '../scripts/engines/sandbox-images.ts'
import { median, quantile } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'

const limits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 30_000,
  memoryBytes: 67_108_864,
  pids: 64,
  diskBytes: 8_388_608,
  stdoutBytes: 1_048_576,
  stderrBytes: 1_048_576,
}
const image = 'docker.io/gantry/sandbox:standard'
const program = { kind: 'script', script: 'echo 42' } as const
const never = new AbortController().signal
const rounds = 10
const warmRounds = 1
const lookMs = 10
const pool = { min: 1, max: 1, maxIdleMs: 3_600_000 }
const extensions = '/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default'

/** One way to run a program in a cluster; `ready` waits until its next round may begin. */
interface Subject {
  readonly name: string
  readonly target: string
  readonly times: number[]
  ready(): Promise<unknown>
  /** Resolves with the milliseconds until the first output is known, and cleans up. */
  measure(): Promise<number>
}

/** A plain Job, a cold pod, a claim from a warm pool and a waiting sandbox, by turns, on a cluster of one node. */
export async function cluster(): Promise<Section> {
  const title = 'A program in a cluster'
  const missing = missingKubernetes()
  if (missing.length > 0) return { title, tables: [], notes: [`Not measured: ${missing.join('; ')}.`] }
  const node = await startKubernetes()
  try {
    progress('cluster: building the image')
    await buildContainerdFlavour(node.containerd, 'standard')
    const controller = await startAgentSandbox(node)
    try {
      const subjects = await measureAll(node)
      const [job = []] = subjects.map(({ times }) => times)
      return {
        title,
        tables: [
          {
            head: ['a shell prints a number', 'p50 ms', 'p5 ms', 'p95 ms', 'to a Job', 'target'],
            rows: subjects.map(({ name, times, target }) => [
              name,
              figure(median(times)),
              figure(quantile(times, 0.05)),
              figure(quantile(times, 0.95)),
              ratio(median(times), median(job)),
              target,
            ]),
          },
        ],
        notes: [
          `${rounds} programs each, one at a time, by turns, on a cluster of one node (Kubernetes 1.34.1, runc) that nothing else uses. A Job counts from its creation until the cluster reports it as succeeded; the others until the first output is at the caller. The next program begins when the last one is removed and the pools are full again.`,
        ],
      }
    } finally {
      await controller.stop()
    }
  } finally {
    await node.stop()
  }
}

async function measureAll(node: KubernetesCluster): Promise<readonly Subject[]> {
  const { kubeconfig } = node
  const pods = createKubernetesRuntime({ kubeconfig, image })
  const claims = createKubernetesRuntime({ kubeconfig, image, mode: 'agent-sandbox', warmPods: 1 })
  const pooled = createRuntimes({ runtimes: [createKubernetesRuntime({ kubeconfig, image })], pool })
  const isQuiet = (): Promise<unknown> => delay(1_000)
  const subjects: readonly Subject[] = [
    { name: 'a plain Job', target: '', times: [], ready: isQuiet, measure: () => runJob(node) },
    {
      name: '**Gantry** `kubernetes`, a cold pod',
      target: '',
      times: [],
      ready: isQuiet,
      measure: () => firstOutput(pods),
    },
    {
      name: '**Gantry** `kubernetes`, a claim from a warm pool',
      target: '≤ 200 ms',
      times: [],
      ready: () => fullPools(node),
      measure: () => firstOutput(claims),
    },
    {
      name: '**Gantry** `kubernetes`, a sandbox that waited',
      target: '',
      times: [],
      ready: () => delay(3_000),
      async measure() {
        const before = performance.now()
        await pooled.run({ program, limits }, never)
        return performance.now() - before
      },
    },
  ]
  try {
    for (let round = -warmRounds; round < rounds; round += 1) {
      progress(`cluster ${Math.max(0, round + 1)} of ${rounds}`)
      for (const { ready, measure, times } of subjects) {
        await ready()
        const ms = await measure()
        if (round >= 0) times.push(ms)
      }
    }
  } finally {
    await Promise.all([pods.close(), claims.close(), pooled.close()])
  }
  return subjects
}

async function firstOutput(runtime: Runtime): Promise<number> {
  const before = performance.now()
  let after = Number.NaN
  const sandbox = await runtime.open({ limits, network: 'none' }, never)
  try {
    const onOutput = (): void => {
      after = performance.now()
    }
    await sandbox.run({ program, onOutput }, never)
    return after - before
  } finally {
    await sandbox.dispose()
  }
}

interface Pool {
  readonly spec: { readonly replicas: number }
  readonly status?: { readonly readyReplicas?: number }
}

/** Resolves when each pod that is claimed has been replaced; before the first claim there are no pools. */
async function fullPools({ ask }: KubernetesCluster): Promise<void> {
  for (;;) {
    const { items } = (await ask('GET', `${extensions}/sandboxwarmpools`)) as { items: readonly Pool[] }
    if (items.every(({ spec, status }) => (status?.readyReplicas ?? 0) === spec.replicas)) return delay(500)
    await delay(50)
  }
}

interface Job {
  readonly metadata: { readonly name: string }
  readonly status?: { readonly succeeded?: number }
}

async function runJob({ ask }: KubernetesCluster): Promise<number> {
  const path = '/apis/batch/v1/namespaces/default/jobs'
  const container = { name: 'job', image, imagePullPolicy: 'IfNotPresent', command: ['/bin/sh', '-c', 'echo 42'] }
  const body = {
    metadata: { generateName: 'job-' },
    spec: {
      template: { spec: { containers: [container], restartPolicy: 'Never', automountServiceAccountToken: false } },
    },
  }
  const before = performance.now()
  const { metadata } = (await ask('POST', path, body)) as Job
  for (;;) {
    const { status } = (await ask('GET', `${path}/${metadata.name}`)) as Job
    if (status?.succeeded === 1) break
    await delay(lookMs)
  }
  const ms = performance.now() - before
  await ask('DELETE', `${path}/${metadata.name}?propagationPolicy=Background`)
  return ms
}
