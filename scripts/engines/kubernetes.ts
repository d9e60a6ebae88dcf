import { spawnSync } from 'node:child_process'
import { createHash, generateKeyPairSync, randomBytes, randomInt } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Authority, makeAuthority } from './certificates.ts'
import { cleanUpOf } from './docker.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'
import { kubernetesPrograms } from './kubernetes-programs.ts'
import { installPackages } from './packages.ts'

/** A cluster of one node, each of whose programs can be killed, frozen and restarted by itself. */
export interface KubernetesCluster {
  readonly kubeconfig: string
  /** The address of containerd, by which images are loaded; those of the node are in the namespace `k8s.io`. */
  readonly containerd: { readonly socket: string; readonly namespace: string }
  readonly api: KeptServer
  readonly kubelet: KeptServer
  /** Sends a request to the API as its administrator; undefined is an answer without a body. */
  ask(method: string, path: string, body?: object): Promise<unknown>
  stop(): Promise<void>
}

interface Ports {
  readonly etcd: number
  readonly peer: number
  readonly api: number
  readonly kubelet: number
}

const packages = ['etcd-server', 'containernetworking-plugins', 'containerd', 'runc', 'busybox-static', 'iproute2']
const serviceNetwork = '198.19.0.0/24'
const startMs = 120_000

/** What the machine lacks for a cluster; empty when it can run. */
export function missingKubernetes(): readonly string[] {
  if (process.getuid?.() !== 0) return ['kubelet (the runtime kubernetes): it needs root']
  const files = ['/usr/bin/etcd', '/usr/lib/cni/bridge', '/usr/bin/containerd', '/usr/sbin/runc', '/bin/busybox']
  if (!files.every((file) => existsSync(file))) installPackages(...packages)
  return files
    .filter((file) => !existsSync(file))
    .map((file) => `${basename(file)} (the runtime kubernetes): not installed; apt-get install ${packages.join(' ')}`)
}

/** Starts a cluster of one node, whose pods have a bridge without a gateway. Rejects with what a program printed. */
export async function startKubernetes(): Promise<KubernetesCluster> {
  const programs = await kubernetesPrograms()
  // Not in memory: overlayfs keeps attributes that tmpfs does not have on every kernel.
  const folder = mkdtempSync(join(tmpdir(), 'gantry-kubernetes-'))
  const stops: (() => Promise<void>)[] = []
  const stop = async (): Promise<void> => {
    for (const one of stops.splice(0).reverse()) await one()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const authority = makeAuthority('Gantry cluster')
    stops.push(async () => authority.remove())
    const ports: Ports = {
      etcd: await freePort(),
      peer: await freePort(),
      api: await freePort(),
      kubelet: await freePort(),
    }
    const token = randomBytes(16).toString('hex')
    const own = (name: string): string => {
      const path = join(folder, name)
      mkdirSync(path)
      return path
    }
    const keep = async (name: string, command: readonly string[], isReady: () => Promise<boolean>, cleanUp = '') => {
      const server = await keepServer({
        name,
        folder: own(`${name}-log`),
        lastSignal: 'TERM',
        cleanUp,
        command,
        isReady,
      })
      stops.push(() => server.stop())
      return server
    }
    const kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), ports.api, authority, token)
    const ask = (method: string, path: string, body?: object): Promise<unknown> =>
      askApi({ port: ports.api, ca: authority.ca, token }, method, path, body)
    const ready = async (path: string): Promise<boolean> =>
      ask('GET', path).then(
        () => true,
        () => false,
      )

    const client = `http://127.0.0.1:${ports.etcd}`
    // It is the last to be stopped; when this process is killed, the others have ended after a moment.
    const removal = `sleep 1; rm -rf ${folder}; rm -rf ${folder}`
    const peer = `http://127.0.0.1:${ports.peer}`
    await keep('etcd', etcdCommand(own('etcd'), client, peer), () => isEtcdReady(client), removal)
    const api = await keep('apiserver', apiCommand(programs, folder, ports, authority, token), () => ready('/readyz'))
    const always = async (): Promise<boolean> => true
    await keep('controllers', controllerCommand(programs, folder, kubeconfig), always)
    await keep('scheduler', schedulerCommand(programs, kubeconfig), always)

    const settings = restoringSettings()
    const network = createNetwork()
    const node = own('node')
    const socket = writeContainerdConfig(node, network)
    await keep(
      'containerd',
      ['containerd', '--config', join(node, 'containerd.toml')],
      async () => spawnSync('ctr', ['--address', socket, 'version'], { stdio: 'ignore', timeout: 5_000 }).status === 0,
      `folder=${node}\n${cleanUpOf(basename(folder))}\n${settings}\nip link delete ${network.bridge}`,
    )
    importPauseImage(node, socket)
    const kubelet = await keep(
      'kubelet',
      kubeletCommand(programs, folder, node, { kubeconfig, socket, port: ports.kubelet, network, authority }),
      () => isNodeReady(ask),
    )
    return { kubeconfig, containerd: { socket, namespace: 'k8s.io' }, api, kubelet, ask, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function etcdCommand(folder: string, client: string, peer: string): string[] {
  const urls = ['--listen-client-urls', client, '--advertise-client-urls', client]
  const peers = [
    '--listen-peer-urls',
    peer,
    '--initial-advertise-peer-urls',
    peer,
    '--initial-cluster',
    `default=${peer}`,
  ]
  return ['etcd', '--data-dir', folder, '--unsafe-no-fsync', ...urls, ...peers]
}

async function isEtcdReady(client: string): Promise<boolean> {
  return fetch(`${client}/health`, { signal: AbortSignal.timeout(2_000) }).then(
    ({ ok }) => ok,
    () => false,
  )
}

function apiCommand(programs: string, folder: string, ports: Ports, authority: Authority, token: string): string[] {
  const { certFile, keyFile } = authority.issue({ name: 'kube-apiserver' })
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  writeFileSync(join(folder, 'accounts.key'), privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  writeFileSync(join(folder, 'accounts.pub'), publicKey.export({ type: 'spki', format: 'pem' }))
  writeFileSync(join(folder, 'tokens.csv'), `${token},admin,admin,"system:masters"\n`, { mode: 0o600 })
  return [
    join(programs, 'kube-apiserver'),
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    `--secure-port=${ports.api}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=198.18.255.254',
    '--endpoint-reconciler-type=none',
    '--kubelet-preferred-address-types=InternalIP',
    `--kubelet-certificate-authority=${authority.caFile}`,
    ...kubeletClient(authority),
    `--tls-cert-file=${certFile}`,
    `--tls-private-key-file=${keyFile}`,
    `--client-ca-file=${authority.caFile}`,
    `--service-account-issuer=https://127.0.0.1:${ports.api}`,
    `--service-account-key-file=${join(folder, 'accounts.pub')}`,
    `--service-account-signing-key-file=${join(folder, 'accounts.key')}`,
    `--token-auth-file=${join(folder, 'tokens.csv')}`,
    '--authorization-mode=RBAC',
    `--service-cluster-ip-range=${serviceNetwork}`,
  ]
}

function kubeletClient(authority: Authority): string[] {
  const { certFile, keyFile } = authority.issue({ name: 'kube-apiserver-kubelet-client' })
  return [`--kubelet-client-certificate=${certFile}`, `--kubelet-client-key=${keyFile}`]
}

function controllerCommand(programs: string, folder: string, kubeconfig: string): string[] {
  return [
    join(programs, 'kube-controller-manager'),
    `--kubeconfig=${kubeconfig}`,
    '--leader-elect=false',
    '--bind-address=127.0.0.1',
    '--secure-port=0',
    '--use-service-account-credentials=false',
    `--service-account-private-key-file=${join(folder, 'accounts.key')}`,
  ]
}

function schedulerCommand(programs: string, kubeconfig: string): string[] {
  return [
    join(programs, 'kube-scheduler'),
    `--kubeconfig=${kubeconfig}`,
    '--leader-elect=false',
    '--bind-address=127.0.0.1',
    '--secure-port=0',
  ]
}

function writeKubeconfig(path: string, port: number, authority: Authority, token: string): string {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'test',
        cluster: {
          server: `https://127.0.0.1:${port}`,
          'certificate-authority-data': Buffer.from(authority.ca).toString('base64'),
        },
      },
    ],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    'current-context': 'test',
  }
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 })
  return path
}

/** A bridge whose address is that of the node, because a node must not have a loopback address. */
interface Network {
  readonly bridge: string
  readonly prefix: string
  readonly address: string
}

function createNetwork(): Network {
  for (let round = 0; ; round += 1) {
    const prefix = `198.18.${randomInt(0, 250)}`
    const network = { bridge: `gk${randomBytes(4).toString('hex')}`, prefix, address: `${prefix}.1` }
    const isTaken = ip('addr').includes(`${prefix}.`)
    if (isTaken && round < 20) continue
    ip('link', 'add', network.bridge, 'type', 'bridge')
    ip('addr', 'add', `${network.address}/24`, 'dev', network.bridge)
    ip('link', 'set', network.bridge, 'up')
    return network
  }
}

function ip(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('ip', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip ${args.join(' ')} failed: ${stderr}`)
  return stdout
}

/** A script that restores what the kubelet changes of the settings of the machine. */
function restoringSettings(): string {
  const names = ['vm/overcommit_memory', 'kernel/panic', 'kernel/panic_on_oops']
  const lines = names.map((name) => `echo ${readFileSync(`/proc/sys/${name}`, 'utf8').trim()} >/proc/sys/${name}`)
  return lines.join('\n')
}

const pauseImage = 'localhost/gantry-pause:1'

function writeContainerdConfig(folder: string, { bridge, prefix }: Network): string {
  const socket = join(folder, 'containerd.sock')
  const networks = join(folder, 'cni')
  mkdirSync(networks)
  const plugins = [
    {
      type: 'bridge',
      bridge,
      isGateway: false,
      ipam: {
        type: 'host-local',
        ranges: [[{ subnet: `${prefix}.0/24`, rangeStart: `${prefix}.10` }]],
        dataDir: join(folder, 'ipam'),
      },
    },
  ]
  writeFileSync(join(networks, '10-bridge.conflist'), JSON.stringify({ cniVersion: '0.4.0', name: 'pods', plugins }))
  writeFileSync(
    join(folder, 'containerd.toml'),
    `version = 2
root = ${JSON.stringify(join(folder, 'root'))}
state = ${JSON.stringify(join(folder, 'state'))}
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = ${JSON.stringify(socket)}
[ttrpc]
  address = ${JSON.stringify(`${socket}.ttrpc`)}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pauseImage}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = ${JSON.stringify(networks)}
`,
  )
  return socket
}

/** The image that holds the namespaces of a pod: one program that sleeps. */
function importPauseImage(folder: string, socket: string): void {
  const [root, archive] = [join(folder, 'pause-root'), join(folder, 'pause')]
  mkdirSync(join(root, 'bin'), { recursive: true })
  mkdirSync(archive)
  cpSync('/bin/busybox', join(root, 'bin/busybox'), { dereference: true })
  tar('-C', root, '-cf', join(archive, 'layer.tar'), '.')
  const layer = createHash('sha256')
    .update(readFileSync(join(archive, 'layer.tar')))
    .digest('hex')
  const config = {
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    os: 'linux',
    config: { Entrypoint: ['/bin/busybox', 'sleep', '2147483647'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${layer}`] },
  }
  writeFileSync(join(archive, 'config.json'), JSON.stringify(config))
  const manifest = [{ Config: 'config.json', RepoTags: [pauseImage], Layers: ['layer.tar'] }]
  writeFileSync(join(archive, 'manifest.json'), JSON.stringify(manifest))
  const file = join(folder, 'pause.tar')
  tar('-C', archive, '-cf', file, 'manifest.json', 'config.json', 'layer.tar')
  const args = ['--address', socket, '-n', 'k8s.io', 'image', 'import', file]
  const { status, stderr } = spawnSync('ctr', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ctr image import failed: ${stderr}`)
}

function tar(...args: readonly string[]): void {
  const { status, stderr } = spawnSync('tar', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`tar failed: ${stderr}`)
}

interface NodeParts {
  readonly kubeconfig: string
  readonly socket: string
  readonly port: number
  readonly network: Network
  readonly authority: Authority
}

function kubeletCommand(
  programs: string,
  folder: string,
  node: string,
  { kubeconfig, socket, port, network, authority }: NodeParts,
): string[] {
  const { certFile, keyFile } = authority.issue({ name: 'kubelet', hosts: [network.address] })
  // Everything of the pods is below one control group, so that it can be found at the end.
  const group = `/${basename(folder)}`
  for (const controller of controllers()) mkdirSync(join('/sys/fs/cgroup', controller, group), { recursive: true })
  const config = {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: network.address,
    port,
    healthzPort: 0,
    tlsCertFile: certFile,
    tlsPrivateKeyFile: keyFile,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: false },
      x509: { clientCAFile: authority.caFile },
    },
    authorization: { mode: 'AlwaysAllow' },
    cgroupDriver: 'cgroupfs',
    cgroupRoot: group,
    failCgroupV1: false,
    failSwapOn: false,
    enforceNodeAllocatable: [],
    evictionHard: {
      'memory.available': '0%',
      'nodefs.available': '0%',
      'nodefs.inodesFree': '0%',
      'imagefs.available': '0%',
    },
    imageGCHighThresholdPercent: 100,
    makeIPTablesUtilChains: false,
    podLogsDir: join(node, 'logs'),
    volumePluginDir: join(node, 'plugins'),
    containerRuntimeEndpoint: `unix://${socket}`,
    maxPods: 250,
    resolvConf: '',
  }
  const path = join(node, 'kubelet.yaml')
  writeFileSync(path, JSON.stringify(config))
  return [
    join(programs, 'kubelet'),
    `--config=${path}`,
    `--kubeconfig=${kubeconfig}`,
    `--root-dir=${join(node, 'kubelet')}`,
    '--hostname-override=gantry-node',
    `--node-ip=${network.address}`,
    `--cert-dir=${join(node, 'certificates')}`,
  ]
}

/** The controllers of version 1 that are mounted by themselves; none where there is version 2 alone. */
function controllers(): readonly string[] {
  const lines = readFileSync('/proc/mounts', 'utf8').split('\n')
  const found = lines.flatMap((line) => /^\S+ \/sys\/fs\/cgroup\/(\S+) cgroup /.exec(line)?.[1] ?? [])
  return found.length === 0 ? [''] : found
}

async function isNodeReady(ask: KubernetesCluster['ask']): Promise<boolean> {
  const node = await ask('GET', '/api/v1/nodes/gantry-node').catch(() => undefined)
  const { status } = (node ?? {}) as { status?: { conditions?: readonly { type: string; status: string }[] } }
  const isReady = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true
  // Pods are refused until the account of their namespace is there.
  const hasAccount = await ask('GET', '/api/v1/namespaces/default/serviceaccounts/default').then(
    () => true,
    () => false,
  )
  if (!isReady || !hasAccount) await pause(200)
  return isReady && hasAccount
}

interface Api {
  readonly port: number
  readonly ca: string
  readonly token: string
}

function askApi({ port, ca, token }: Api, method: string, path: string, body?: object): Promise<unknown> {
  const patch = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': patch }
    const options = { host: '127.0.0.1', port, ca, method, path, headers, agent: false, timeout: startMs }
    const sent = request(options, (answer) => {
      const pieces: Buffer[] = []
      answer.on('data', (piece: Buffer) => pieces.push(piece))
      answer.on('end', () => {
        const text = Buffer.concat(pieces).toString()
        const { statusCode = 0 } = answer
        if (statusCode >= 300) reject(new Error(`${method} ${path}: ${statusCode} ${text.slice(0, 500)}`))
        else resolve(text.startsWith('{') ? JSON.parse(text) : text)
      })
      answer.on('error', reject)
    })
    sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer`)))
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
