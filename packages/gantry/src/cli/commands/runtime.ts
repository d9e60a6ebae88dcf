import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, createWriteStream, renameSync, type WriteStream } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { isRuntimes } from '@gantry/core/internal/runtimes/runtimes'
import type {
  BuiltImage,
  ContainerdSettings,
  ContainerOptions,
  DockerSettings,
  Flavour,
  Pruned,
  SandboxImage,
} from '@gantry/sandbox-containers'
import type { MicrovmRuntimesOptions, QemuSettings } from '@gantry/sandbox-microvm'
import type { RuntimeServer, RuntimeServerOptions, ServerRecord, SigningKey } from '@gantry/sandbox-remote'
import { loadConfig } from '@gantry/service/internal/config/load'
import { readTlsFiles, resolveText } from '@gantry/service/internal/config/secret-sources'
import { ensureKey } from '@gantry/service/internal/config/service-files'
import type { LoadedConfig } from '@gantry/service/serve'
import { openSandboxes } from '@gantry/tools'
import { unknownName, usageError } from '../errors.ts'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { createProgress, printJson, tableText } from '../print.ts'
import { safeJson, safeLine } from '../terminal.ts'

/** Builds the image of a flavour and loads it into an engine. */
export const buildImage: Command = async ({ operands, options }, io) => {
  const { flavours } = await import('@gantry/sandbox-containers')
  const [name = 'standard'] = operands
  const flavour = flavours.find((one) => one.name === name)
  if (flavour === undefined) {
    const names = flavours.map((one) => one.name)
    throw await unknownName('flavour', `${name} is not a flavour; there are ${names.join(', ')}.`, name, names)
  }
  const engine = await openStore(options, io)
  const progress = createProgress(io, options)
  const onProgress = (step: string): void => {
    if (io.watched) progress.show(barText(step))
    else if (options.quiet !== true && !step.startsWith('unpacking')) io.err(`${safeLine(step)}\n`)
  }
  const built = await engine.build(flavour, io.signal, onProgress).finally(progress.clear)
  if (options.json === true) await printJson({ flavour: name, ...built, engine: engine.address }, io)
  else await io.out(safeLine(`${built.name}  ${built.digest}`).concat('\n'))
  return 0
}

/** Wide enough to see a package of fifty. */
const barWidth = 25

/** A step that counts, such as `unpacking 3 of 49`, with a bar before it. */
export function barText(step: string): string {
  const [, done, all] = /\b(\d+) of (\d+)$/.exec(step) ?? []
  if (done === undefined || all === undefined) return step
  const filled = Math.round((barWidth * Math.min(Number(done), Number(all))) / Math.max(1, Number(all)))
  return `[${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}] ${step}`
}

/** Lists the images that sandboxes can be made from. */
export const listImages: Command = async ({ options }, io) => {
  const engine = await openStore(options, io)
  const items = await engine.list(io.signal)
  if (options.json === true) await printJson({ items }, io)
  else if (items.length === 0) await io.out('No image of sandboxes; gantry runtime build makes one.\n')
  else {
    const rows = items.map(({ digest, names, flavour, bytes, createdAt }) => [
      flavour ?? '',
      digest.slice(0, 19),
      `${Math.round(bytes / 1e6)} MB`,
      createdAt,
      names.join(', '),
    ])
    await io.out(tableText(['flavour', 'digest', 'size', 'created', 'names'], rows, io))
  }
  return 0
}

/** Removes what newer images and dead owners left. */
export const pruneImages: Command = async ({ options }, io) => {
  const engine = await openStore(options, io)
  const pruned = await engine.prune(io.signal)
  if (options.json === true) await printJson(pruned, io)
  else {
    const lines = [
      ...pruned.images.map(({ names }) => `removed image ${names.join(', ')}`),
      ...pruned.containers.map((id) => `removed container ${id}`),
      ...pruned.kept.map(({ digest, reason }) => `kept image ${digest}: ${reason}`),
    ]
    await io.out(lines.length === 0 ? 'Nothing to remove.\n' : `${lines.map(safeLine).join('\n')}\n`)
  }
  return 0
}

/** Where images are: one engine. */
interface ImageStore {
  readonly address: string
  build(flavour: Flavour, signal: AbortSignal, onProgress: (step: string) => void): Promise<BuiltImage>
  list(signal: AbortSignal): Promise<readonly SandboxImage[]>
  prune(signal: AbortSignal): Promise<Pruned>
}

/** The engine that the command line names, then the one that the configuration does, then Docker's own socket. */
async function openStore(values: OptionValues, io: Io): Promise<ImageStore> {
  const { engine, socket, 'engine-namespace': namespace, config } = values
  const containers = await import('@gantry/sandbox-containers')
  const { environment, folder, signal } = io
  if (engine !== undefined && !isEngine(engine)) {
    throw await unknownName('engine', `${engine} is not an engine; there are ${engines.join(', ')}.`, engine, engines)
  }
  const file = config === undefined ? {} : { file: config }
  const { options, warnings } = await loadConfig({ environment, folder, signal, ...file })
  for (const warning of warnings) io.err(`warning: ${safeLine(warning)}\n`)
  // The configuration never has runtimes that are open already.
  const configured: ContainerOptions & MicrovmRuntimesOptions =
    options.runtimes === undefined || isRuntimes(options.runtimes) ? {} : options.runtimes
  if (engine === 'qemu') return machineStore(configured.qemu ?? configured.firecracker ?? {})
  const own = configured.gvisor ?? configured.kata ?? {}
  const kind = engine ?? containers.engineOf(configured, own)
  const given = socket === undefined ? {} : { socket: resolve(folder, socket) }
  if (kind === 'containerd') {
    const settings = configured.containerd ?? (own.engine === 'containerd' ? own : {})
    return containerdStore(containers, { ...settings, ...given, ...(namespace === undefined ? {} : { namespace }) })
  }
  const settings = configured.docker ?? (own.engine === 'containerd' ? {} : own)
  return dockerStore(containers, socket === undefined ? settings : given)
}

const engines = ['docker', 'containerd', 'qemu'] as const

function isEngine(name: string): name is (typeof engines)[number] {
  return engines.some((engine) => engine === name)
}

/** Images of virtual machines are files, which no server keeps. */
async function machineStore({ store: named }: QemuSettings): Promise<ImageStore> {
  const { buildMachineImage, listMachineImages, pruneMachineImages, storeFolder } = await import(
    '@gantry/sandbox-microvm'
  )
  const store = named ?? storeFolder()
  return {
    address: store,
    async build(flavour, signal, onProgress) {
      const { digest } = await buildMachineImage({ store, flavour, signal, onProgress })
      return { name: `gantry/sandbox:${flavour.name}`, digest }
    },
    list: () => listMachineImages(store),
    async prune() {
      return { images: await pruneMachineImages(store), containers: [], kept: [] }
    },
  }
}

type Containers = typeof import('@gantry/sandbox-containers')

function dockerStore(containers: Containers, settings: DockerSettings): ImageStore {
  const { addressText, buildDockerImage, dockerAddress, listDockerImages, pruneDocker } = containers
  const address = dockerAddress(settings)
  return {
    address: addressText(address),
    build: (flavour, signal, onProgress) => buildDockerImage({ address, flavour, signal, onProgress }),
    list: (signal) => listDockerImages(address, signal),
    prune: (signal) => pruneDocker(address, signal),
  }
}

function containerdStore(containers: Containers, settings: ContainerdSettings): ImageStore {
  const { buildContainerdImage, containerdAddress, containerdText, listContainerdSandboxImages, pruneContainerd } =
    containers
  const address = containerdAddress(settings)
  const { snapshotter } = settings
  const snapshots = snapshotter === undefined ? {} : { snapshotter }
  return {
    address: containerdText(address),
    build: (flavour, signal, onProgress) =>
      buildContainerdImage({ address, flavour, signal, onProgress, ...snapshots }),
    list: (signal) => listContainerdSandboxImages(address, signal),
    prune: (signal) => pruneContainerd(address, signal, snapshotter),
  }
}

const keyForm = /^gr_[A-Za-z0-9_-]{43}$/

/** Offers the runtimes of this host until a signal comes, and until running programs have ended. */
export const serveRuntimes: Command = async ({ options }, io) => {
  const { environment, folder, signal } = io
  const file = options.config === undefined ? {} : { file: options.config }
  const data = options.data === undefined ? {} : { GANTRY_DATA: resolve(folder, options.data) }
  const loaded = await loadConfig({ environment: { ...environment, ...data }, folder, signal, ...file })
  for (const warning of loaded.warnings) io.err(`warning: ${safeLine(warning)}\n`)
  const { keys, keyFile } = await keysOf(loaded)
  const audit = await openRecordFile(join(loaded.service.data, 'runtime-audit.jsonl'))
  const onRecord = (record: ServerRecord): void => {
    const line = `${safeJson(record)}\n`
    audit.write(line)
    if (record.event === 'refused') io.err(line)
  }
  const { createRuntimeServer } = await import('@gantry/sandbox-remote')
  // A host offers what it runs itself: to pass programs on to further hosts could go in a circle.
  const { runtimes: configured = {} } = loaded.options
  const { remote: _remote, temporal: _temporal, ...local } = isRuntimes(configured) ? {} : configured
  const runtimes = await openSandboxes(local)
  let server: RuntimeServer | undefined
  try {
    server = await createRuntimeServer({
      runtimes,
      keys,
      onRecord,
      ...(await settingsOf(loaded)),
      ...(options.port === undefined ? {} : { port: options.port }),
      ...(options.listen === undefined ? {} : { listen: options.listen }),
    })
    await announce(server.url, keys, keyFile, options.json === true, io)
    await untilEnded(signal)
    io.err('draining: new sandboxes are refused, running programs end first\n')
    await server.drain()
  } finally {
    await server?.close()
    await runtimes.close()
    audit.end()
  }
  return 0
}

/** The configured keys, or the one of the data folder, which is made when it is missing. */
async function keysOf({ runtimeServer = {}, options, service }: LoadedConfig): Promise<{
  readonly keys: readonly SigningKey[]
  readonly keyFile?: string
}> {
  const { keys } = runtimeServer
  if (keys !== undefined) {
    const resolved = keys.map(async ({ id, key }) => ({
      id,
      key: (await resolveText(key, options.secrets, 'is a key of runtimeServer')).trim(),
    }))
    return { keys: await Promise.all(resolved) }
  }
  const keyFile = join(service.data, 'runtime-key')
  const { key } = await ensureKey(keyFile, keyForm, () => `gr_${randomBytes(32).toString('base64url')}`)
  return { keys: [{ id: 'default', key }], keyFile }
}

async function settingsOf({ runtimeServer = {}, file }: LoadedConfig): Promise<Partial<RuntimeServerOptions>> {
  const { keys: _, tls, ...rest } = runtimeServer
  if (tls === undefined) return rest
  const at = (path: string): string => (file === undefined ? path : resolve(dirname(file), path))
  const { certFile, keyFile, caFile } = tls
  const files = {
    certFile: at(certFile),
    keyFile: at(keyFile),
    ...(caFile === undefined ? {} : { caFile: at(caFile) }),
  }
  const { cert = '', key = '', ca } = await readTlsFiles(files, '/runtimeServer/tls')
  return { ...rest, tls: { cert, key, ...(ca === undefined ? {} : { ca }) } }
}

async function announce(
  url: string,
  keys: readonly SigningKey[],
  keyFile: string | undefined,
  isJson: boolean,
  io: Io,
): Promise<void> {
  const place = keyFile === undefined ? {} : { keyFile }
  if (isJson)
    return printJson({ state: 'ready', url, keyIds: keys.map(({ id }) => id), ...place, pid: process.pid }, io)
  await io.out(`listening on ${url}\nready\n`)
  if (keyFile !== undefined)
    io.err(`The key "default" is in ${safeLine(keyFile)}; other hosts name it under runtimes.remote.\n`)
}

async function untilEnded(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

/** Writes the archive of a template for Proxmox VE, with the key that the configuration names. */
export const writeTemplate: Command = async ({ operands, options }, io) => {
  const [path = '', name = 'standard'] = operands
  const { templateFlavours, writeTemplateArchive } = await import(
    '@gantry/sandbox-proxmox/internal/templates/template-archive'
  )
  const flavour = templateFlavours.find((one) => one.name === name)
  if (flavour === undefined) {
    const names = templateFlavours.map((one) => one.name)
    throw await unknownName(
      'flavour',
      `${name} is no flavour of a template; there are ${names.join(', ')}.`,
      name,
      names,
    )
  }
  const { environment, folder, signal } = io
  const { options: loaded, warnings } = await loadConfig({
    environment,
    folder,
    signal,
    ...(options.config === undefined ? {} : { file: options.config }),
  })
  for (const warning of warnings) io.err(`warning: ${safeLine(warning)}\n`)
  const { agentKeyOf, hasProxmox } = await import('@gantry/sandbox-proxmox/internal/settings')
  if (!hasProxmox(loaded.runtimes)) {
    throw usageError(
      '/runtimes/proxmox',
      'The configuration needs runtimes.proxmox, because the template gets its agentKey.',
    )
  }
  const key = await agentKeyOf(loaded.runtimes.proxmox, loaded.secrets)
  const file = resolve(folder, path)
  const progress = createProgress(io, options)
  const onProgress = (step: string): void => {
    if (io.watched) progress.show(step)
    else if (options.quiet !== true && !step.startsWith('unpacking')) io.err(`${safeLine(step)}\n`)
  }
  await writeTemplateArchive({ flavour, key, file, signal, onProgress }).finally(progress.clear)
  if (options.json === true) await printJson({ flavour: name, file }, io)
  else await io.out(`${safeLine(file)}\n`)
  return 0
}

/** A file of lines that only its owner may read. */
export interface RecordFile {
  write(line: string): void
  /** What was written is in the file when the process ends. */
  end(): void
}

/** A hostile client can have lines written without an end; with the file before it, twice this much is kept. */
const mostBytes = 67_108_864

/** Appends to a file; a full one is renamed to `FILE.1`, in place of an earlier one. */
export async function openRecordFile(file: string, most = mostBytes): Promise<RecordFile> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  let stream = append(file)
  await once(stream, 'open')
  chmodSync(file, 0o600)
  let { size } = await stat(file)
  return {
    write(line) {
      const bytes = Buffer.byteLength(line)
      if (size > 0 && size + bytes > most && isMovedAside(file)) {
        // Lines that are still to be written go with the open file.
        stream.end()
        stream = append(file)
        size = 0
      }
      size += bytes
      stream.write(line)
    },
    end: () => void stream.end(),
  }
}

/** A folder in which nothing can be renamed any more must not end the server. */
function isMovedAside(file: string): boolean {
  try {
    renameSync(file, `${file}.1`)
    return true
  } catch {
    return false
  }
}

function append(file: string): WriteStream {
  return createWriteStream(file, { flags: 'a', mode: 0o600 })
}
