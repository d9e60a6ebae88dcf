import { spawnSync } from 'node:child_process'
import { randomBytes, randomInt, X509Certificate } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Flavour, flavours } from '../../packages/sandbox-containers/src/images/flavours.ts'
import {
  buildRootFileSystem,
  type RootFileSystem,
} from '../../packages/sandbox-containers/src/images/root-file-system.ts'
import { addGuestFiles } from '../../packages/sandbox-proxmox/src/templates/guest-files.ts'
import { makeAuthority } from './certificates.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'
import { lxcCleanUp, lxcPrograms } from './lxc.ts'
import type { ProxmoxFault, ProxmoxServerSettings } from './proxmox-server.ts'

/** How a runtime reaches the server; the options of `createProxmoxRuntime`. */
export interface ProxmoxTarget {
  readonly url: string
  readonly fingerprint: string
  readonly tokenId: string
  readonly token: string
  readonly node: string
  readonly template: number
  readonly vmids: { readonly first: number; readonly last: number }
  readonly network: { readonly bridge: string; readonly from: string }
  readonly agentKey: string
}

/** A server with the API of Proxmox VE whose containers are real ones of plain LXC. */
export interface ProxmoxEngine extends KeptServer {
  readonly target: ProxmoxTarget
  /** The authority of its certificate, as PEM. */
  readonly ca: string
  /** Tells it what to do wrong, or to change; resolves with the requests since the last time and what containers there are. */
  control(what: string, body?: object): Promise<ProxmoxState>
  fault(fault: ProxmoxFault): Promise<ProxmoxState>
}

export interface ProxmoxState {
  readonly requests: readonly string[]
  readonly containers: readonly {
    readonly vmid: number
    readonly name: string
    readonly status: string
    readonly tags?: string
  }[]
}

const buildMs = 900_000
const template = 9_000
const vmids = { first: 9_100, last: 9_199 }

/** Starts the server with a template of a flavour. */
export async function startProxmox(flavourName = 'standard'): Promise<ProxmoxEngine> {
  const programs = await lxcPrograms()
  // Not in memory: overlayfs keeps attributes that tmpfs does not have on every kernel.
  const folder = mkdtempSync(join(tmpdir(), 'gantry-pve-'))
  // Root of a container is no root here, and must pass through to its root file system.
  chmodSync(folder, 0o711)
  const bridge = `gpx${randomBytes(4).toString('hex')}`
  const authority = makeAuthority('Gantry Proxmox')
  try {
    const agentKey = randomBytes(32).toString('hex')
    const root = await makeTemplate(folder, flavourName, agentKey)
    const network = `198.18.${randomInt(1, 255)}`
    run('ip', ['link', 'add', bridge, 'type', 'bridge'])
    run('ip', ['address', 'add', `${network}.1/24`, 'dev', bridge])
    run('ip', ['link', 'set', bridge, 'up'])
    const { certFile, keyFile } = authority.issue()
    const settings: ProxmoxServerSettings = {
      programs,
      folder,
      template: root,
      bridge,
      prefix: basename(folder),
      port: await freePort(),
      certFile,
      keyFile,
      tokenId: 'gantry@pve!sandboxes',
      token: randomBytes(16).toString('hex'),
      node: 'pve1',
      vmid: template,
      control: randomBytes(16).toString('hex'),
    }
    const file = join(folder, 'settings.json')
    writeFileSync(file, JSON.stringify(settings), { mode: 0o600 })
    const control = (what: string, body: object = {}): Promise<ProxmoxState> => ask(settings, authority.ca, what, body)
    const kept = await keepServer({
      name: 'proxmox',
      folder,
      lastSignal: 'TERM',
      cleanUp: `${lxcCleanUp(programs, settings.prefix, bridge)}\nrm -rf ${authority.folder}`,
      command: [process.execPath, join(import.meta.dirname, 'proxmox-server.ts'), file],
      isReady: () => control('state').then(Boolean, () => false),
    })
    const { tokenId, token, node, port } = settings
    const target: ProxmoxTarget = {
      url: `https://127.0.0.1:${port}`,
      fingerprint: new X509Certificate(readFileSync(certFile)).fingerprint256,
      tokenId,
      token,
      node,
      template,
      vmids,
      network: { bridge, from: `${network}.16/24` },
      agentKey,
    }
    return Object.assign(kept, {
      target,
      ca: authority.ca,
      control,
      fault: (fault: ProxmoxFault) => control('fault', fault),
    })
  } catch (error) {
    spawnSync('ip', ['link', 'delete', bridge], { stdio: 'ignore' })
    rmSync(folder, { recursive: true, force: true })
    authority.remove()
    throw error
  }
}

/** A root file system whose files belong to the uids to which an unprivileged container maps its own. */
async function makeTemplate(folder: string, name: string, agentKey: string): Promise<string> {
  const flavour = flavours.find((one) => one.name === name)
  if (flavour === undefined) throw new Error(`There is no flavour ${name}.`)
  const system = await buildInTurn(flavour, AbortSignal.timeout(buildMs))
  try {
    await addGuestFiles(system.folder, agentKey)
    const root = join(folder, 'template')
    run('cp', ['-a', system.folder, root])
    run('chown', ['-hR', '100000:100000', root])
    return root
  } finally {
    await system.remove()
  }
}

/** apt locks the cache of packages while another test builds, and does not wait for it. */
async function buildInTurn(flavour: Flavour, signal: AbortSignal): Promise<RootFileSystem> {
  for (;;) {
    try {
      return await buildRootFileSystem({ flavour, signal })
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('Unable to lock directory')) throw error
      await pause(500, undefined, { signal })
    }
  }
}

function ask({ port, control }: ProxmoxServerSettings, ca: string, what: string, body: object): Promise<ProxmoxState> {
  return new Promise((resolve, reject) => {
    const headers = { 'x-control': control }
    const sent = request(
      { host: '127.0.0.1', port, ca, method: 'POST', path: `/_control/${what}`, headers, agent: false },
      (answer) => {
        const pieces: Buffer[] = []
        answer.on('data', (piece: Buffer) => pieces.push(piece))
        answer.on('end', () => {
          const text = Buffer.concat(pieces).toString()
          if (answer.statusCode === 200) resolve(JSON.parse(text).data)
          else reject(new Error(text))
        })
      },
    )
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

function run(program: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args[0]} failed: ${error?.message ?? stderr}`)
}
