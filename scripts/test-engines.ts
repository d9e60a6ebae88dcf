import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import type { MatrixCase } from '../packages/conformance/src/runtime-case.ts'
import { containerRuntimes, runtimesPage } from './docs/runtimes-page.ts'
import { startAgentSandbox } from './engines/agent-sandbox.ts'
import { type ContainerdServer, startContainerd } from './engines/containerd.ts'
import { type DockerServer, missingDocker, startDocker } from './engines/docker.ts'
import type { KeptServer } from './engines/keeper.ts'
import { type KubernetesCluster, missingKubernetes, startKubernetes } from './engines/kubernetes.ts'
import { missingLxc } from './engines/lxc.ts'
import { installPrograms } from './engines/packages.ts'
import { type ProxmoxEngine, startProxmox } from './engines/proxmox.ts'
import { buildMachines, missingQemu } from './engines/qemu.ts'
import { buildContainerdFlavour, buildImages } from './engines/sandbox-images.ts'
import { startTemporal, type TemporalServer } from './engines/temporal.ts'
import { type CampaignsEnd, runCampaigns } from './run-campaigns.ts'
import { inOrder } from './test-groups.ts'

/**
 * Runs the tests in the folders `test/engines` of packages against an engine that is started for them. They are apart
 * from `npm test`, because they need root, an image and, some of them, a cluster. Without an engine it says why; with GANTRY_ENGINES=required, as in
 * CI, it fails then.
 */
const root = dirname(import.meta.dirname)
const asked = process.argv.slice(2)
const patterns = asked.length > 0 ? asked : ['packages/*/test/engines/*.test.ts']
const found = patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()
/** These take longest and start first, so that none of them runs alone at the end. */
const longest = [
  'container-calls',
  'engine-faults',
  'leaks',
  'kubernetes-attacks',
  'agent-sandbox-attacks',
  'gvisor-attacks',
  'qemu',
  'qemu-attacks',
  'proxmox-attacks',
  'temporal-attacks',
]
const place = (file: string): number => {
  const at = longest.indexOf(basename(file, '.test.ts'))
  return at === -1 ? longest.length : at
}
const files = found.toSorted((one, other) => place(one) - place(other))
if (files.length === 0) {
  console.error(`No test file matches ${patterns.join(' ')}.`)
  process.exit(2)
}
// Controls of attacks and the runtime `process` need bubblewrap and Python.
installPrograms()
/** A cluster takes minutes to build the first time, and only some files need one. */
const needsCluster = files.some((file) => file.includes('sandbox-kubernetes'))
const needsMachines = files.some((file) => /sandbox-microvm|machine/.test(file))
const needsProxmox = files.some((file) => file.includes('sandbox-proxmox'))
const needsTemporal = files.some((file) => file.includes('packages/temporal'))
const missing = [
  ...missingDocker(),
  ...(needsCluster ? missingKubernetes() : []),
  ...(needsMachines ? missingQemu() : []),
  ...(needsProxmox ? missingLxc() : []),
]
if (missing.length > 0) {
  for (const one of missing) console.error(`missing  ${one}`)
  const required = process.env.GANTRY_ENGINES === 'required'
  console.error(
    required ? '\nGANTRY_ENGINES=required, so this is a failure.' : '\nThe tests of container engines were not run.',
  )
  process.exit(required ? 1 : 0)
}
/** An image with compilers is large, and only the suite of runtimes runs every language. */
const isFull = files.some((file) => readFileSync(join(root, file), 'utf8').includes('fullImage'))
const needed = ['standard', ...(isFull ? ['full'] : [])]
const notes = mkdtempSync(join(tmpdir(), 'gantry-engines-'))
const matrix = join(notes, 'cases')
const docker = await startDocker()
let containerd: ContainerdServer | undefined
let cluster: KubernetesCluster | undefined
let agentSandbox: KeptServer | undefined
let machines: string | undefined
let temporal: TemporalServer | undefined
let proxmox: ProxmoxEngine | undefined
try {
  containerd = await startContainerd()
  if (needsCluster) {
    cluster = await startKubernetes()
    agentSandbox = await startAgentSandbox(cluster)
  }
  if (needsMachines) machines = await buildMachines()
  if (needsTemporal) temporal = await startTemporal()
  console.error('gantry: building the images of sandboxes …')
  if (needsProxmox) proxmox = await startProxmox('full')
  for (const flavour of needed) {
    await buildImages(docker, containerd, flavour)
    if (cluster !== undefined) await buildContainerdFlavour(cluster.containerd, flavour)
  }
  const end = await runTests({ docker, containerd, cluster, machines, proxmox, temporal })
  process.exitCode = end === 'failed' ? 1 : 0
  // Repeated files would have their cases twice.
  if (end === 'passed' && asked.length === 0) writeMatrix()
} finally {
  await temporal?.stop()
  await agentSandbox?.stop()
  await proxmox?.stop()
  await cluster?.stop()
  await containerd?.stop()
  await docker.stop()
  rmSync(notes, { recursive: true })
}

/** Writes how each case of each container runtime ended, when all of them ran. */
function writeMatrix(): void {
  const cases = readFileSync(matrix, 'utf8').split('\n').filter(Boolean)
  const page = runtimesPage(
    containerRuntimes,
    cases.map((line) => JSON.parse(line) as MatrixCase),
  )
  writeFileSync(join(root, 'docs/container-runtimes.md'), page)
}

interface Engines {
  readonly docker: DockerServer
  readonly containerd: ContainerdServer
  readonly cluster: KubernetesCluster | undefined
  /** The folder of images of virtual machines. */
  readonly machines: string | undefined
  readonly proxmox: ProxmoxEngine | undefined
  readonly temporal: TemporalServer | undefined
}

function runTests({ docker, containerd, cluster, machines, proxmox, temporal }: Engines): Promise<CampaignsEnd> {
  const env = {
    ...process.env,
    GANTRY_TEST_DOCKER: docker.socket,
    GANTRY_TEST_CONTAINERD: containerd.socket,
    GANTRY_TEST_CONTAINERD_NAMESPACE: containerd.namespace,
    ...(cluster === undefined ? {} : { GANTRY_TEST_KUBECONFIG: cluster.kubeconfig }),
    ...(machines === undefined ? {} : { GANTRY_TEST_MACHINES: machines }),
    ...(temporal === undefined ? {} : { GANTRY_TEST_TEMPORAL: temporal.address }),
    ...(proxmox === undefined ? {} : { GANTRY_TEST_PROXMOX: JSON.stringify(proxmox.target) }),
    GANTRY_MATRIX: matrix,
    // What a control shows without a guard is the same for every runtime, so that one run of it serves all.
    GANTRY_ATTACK_CONTROLS: join(notes, 'controls'),
  }
  const modules = inOrder(
    root,
    files.map((file) => [file]),
    notes,
  )
  return runCampaigns({ root, modules, env, folder: notes, longestMs: 900_000 })
}
