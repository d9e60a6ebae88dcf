import { randomBytes } from 'node:crypto'
import { finished } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import type { Refusal } from '@gantry/core/internal/runtimes/runtime'
import type { ContainerSpec } from '@gantry/sandbox-containers/internal/engines/engine'
import type { Cluster, ResourceKind } from '../cluster/cluster.ts'
import { containerName, labels, type PodSettings, podName, podOf } from './pod-spec.ts'

/**
 * Whether a cluster does what a NetworkPolicy says. Many network plugins ignore them without a word, so that two pods
 * find out: one connects to the other, before and after a policy that denies it.
 */
export type NetworkFinding =
  | { readonly state: 'enforced' }
  /** Connections pass a policy that denies all. */
  | { readonly state: 'ignored' }
  | { readonly state: 'unknown'; readonly reason: string }

const policies: ResourceKind = { group: 'networking.k8s.io', version: 'v1', plural: 'networkpolicies' }
const probeLabel = 'dev.gantry.network-probe'
const port = 8_080
/** How long a plugin may take to apply a policy; then a connection that passes shows that it does not. */
const applyMs = 3_000
const reachMs = 10_000
const wholeMs = 40_000
const removeMs = 10_000
const lookMs = 100

const listening = `
import socket
server = socket.create_server(('0.0.0.0', ${port}))
while True: server.accept()[0].close()`

/** Ends with 0 when a connection was made, within the time (`reach`) or still after it (`hold`). */
const connecting = `
import socket, sys, time
host, want, ms = sys.argv[1], sys.argv[2], int(sys.argv[3])
until = time.monotonic() + ms / 1000
while True:
    try:
        socket.create_connection((host, ${port}), 1).close()
        is_open = True
    except OSError:
        is_open = False
    if is_open == (want == 'reach') or time.monotonic() > until: sys.exit(0 if is_open else 1)
    time.sleep(0.1)`

/** Starts two pods and a policy for them, and removes all of it. Rejects only when its signal aborts. */
export async function probeNetwork(
  cluster: Cluster,
  settings: PodSettings,
  given: AbortSignal,
): Promise<NetworkFinding> {
  const policy = podName(randomBytes(9).toString('base64url'))
  const names = { server: `${policy}-server`, client: `${policy}-client`, policy }
  const { signal, leave } = follow(given, AbortSignal.timeout(wholeMs))
  try {
    return await connectPods(cluster, settings, names, signal)
  } catch (error) {
    given.throwIfAborted()
    const said = ToolError.is(error) || error instanceof Error ? error.message : String(error)
    return { state: 'unknown', reason: said.slice(0, 500) }
  } finally {
    leave()
    const last = AbortSignal.timeout(removeMs)
    await Promise.allSettled([
      cluster.deletePod(names.server, last),
      cluster.deletePod(names.client, last),
      cluster.resources.remove(policies, names.policy, last),
    ])
  }
}

async function connectPods(
  cluster: Cluster,
  settings: PodSettings,
  names: { readonly server: string; readonly client: string; readonly policy: string },
  signal: AbortSignal,
): Promise<NetworkFinding> {
  const address = await Promise.all([
    startPod(cluster, settings, names.server, listening, signal),
    startPod(cluster, settings, names.client, 'import time\nwhile True: time.sleep(60)', signal),
  ]).then(([server]) => server)
  const connects = async (want: 'reach' | 'hold', ms: number): Promise<boolean> => {
    const command = ['/usr/bin/python3', '-c', connecting, address, want, String(ms)]
    const { channel, ended } = await cluster.exec(names.client, containerName, command, signal)
    channel.resume()
    const end = await ended
    channel.destroy()
    await finished(channel).catch(() => undefined)
    if (end.kind === 'lost') throw new Error(end.reason)
    return end.code === 0
  }
  if (!(await connects('reach', reachMs))) {
    return { state: 'unknown', reason: 'Pods cannot connect to each other even without a NetworkPolicy.' }
  }
  await cluster.resources.create(policies, denyAll(names.policy, names.server), signal)
  return { state: (await connects('hold', applyMs)) ? 'ignored' : 'enforced' }
}

function denyAll(name: string, server: string): object {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name, labels: { [labels.sandbox]: 'true' } },
    spec: { podSelector: { matchLabels: { [probeLabel]: server } }, policyTypes: ['Ingress', 'Egress'] },
  }
}

/** The policy of sandboxes with another program; resolves with the address of the pod once it runs. */
async function startPod(
  cluster: Cluster,
  settings: PodSettings,
  name: string,
  program: string,
  signal: AbortSignal,
): Promise<string> {
  const spec: ContainerSpec = {
    id: name,
    owner: name,
    image: settings.image,
    filter: 'base',
    command: ['/usr/bin/python3', '-c', program],
    uid: 65_533,
    hasOwnKernel: false,
    memoryBytes: 67_108_864,
    diskBytes: 1_048_576,
    processors: 1,
    pids: 8,
    openFiles: 64,
  }
  const pod = podOf(spec, settings, name)
  const metadata = { ...pod.metadata, name, labels: { [labels.sandbox]: 'true', [probeLabel]: name } }
  await cluster.createPod({ ...pod, metadata }, signal)
  for (;;) {
    const now = await cluster.readPod(name, signal)
    const { phase, podIP } = now?.status ?? {}
    if (phase === 'Running' && podIP !== undefined) return podIP
    if (now === undefined || phase === 'Failed' || phase === 'Succeeded')
      throw new Error(`The pod ${name} did not run.`)
    await pause(lookMs, undefined, { signal })
  }
}

/** Why a sandbox gets no network there; undefined where its cluster is not the reason. */
export function networkRefusal(finding: NetworkFinding | undefined): Refusal | undefined {
  if (finding === undefined || finding.state === 'enforced') return undefined
  const remedy =
    'Leave `network` out, use another runtime, or a cluster whose network plugin enforces NetworkPolicy (then run `gantry doctor`).'
  if (finding.state === 'ignored') {
    const reason =
      'The cluster does not enforce NetworkPolicy: a connection between two pods passed a policy that denies it, so that no rule of a network would hold.'
    return { reason, remedy }
  }
  return { reason: `It is not known whether the cluster enforces NetworkPolicy: ${finding.reason}`, remedy }
}

/** For the version that `gantry doctor` shows. */
export function networkText({ state }: NetworkFinding): string {
  return {
    enforced: 'NetworkPolicy enforced',
    ignored: 'NetworkPolicy not enforced',
    unknown: 'NetworkPolicy unknown',
  }[state]
}
