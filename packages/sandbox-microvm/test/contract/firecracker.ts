/**
 * A server that keeps to the published API of Firecracker, in its place: it checks bodies, the order of requests and files,
 * has its states and gives its faults. `faults.json` in its folder makes a request fail, hang or end it.
 *
 *   not started → [ running ⇄ paused ] → ended        not started → (snapshot loaded) → paused or running
 */
import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSocketServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { createGuest, type Guest } from './guest.ts'
import { bodyFault, type Fields, isRecord } from './requests.ts'

const version = '1.10.1'
const parts = join(import.meta.dirname, '..')
const longestBody = 51_200
const [command, ...rest] = process.argv.slice(2)

/** What a request may say, as the swagger file has it. */
interface Config {
  machine: Fields
  boot?: Fields
  drives: Fields[]
  vsock?: Fields
}

type State = 'Not started' | 'Running' | 'Paused'

let state: State = 'Not started'
let isConfigured = false
let config: Config = { machine: { vcpu_count: 1, mem_size_mib: 128 }, drives: [] }
let guest: Guest | undefined

if (command === '--version') {
  process.stdout.write(`Firecracker v${version}\n`)
} else {
  const at = rest.indexOf('--api-sock')
  const server = createServer((message, response) => void serve(message, response))
  server.listen(inJail(rest[at + 1] ?? '/run/firecracker.socket'))
}

/** A path as Firecracker sees it. */
function inJail(path: string): string {
  return join(process.cwd(), path)
}

async function serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = '', url = '' } = message
  const pieces: Buffer[] = []
  for await (const piece of message) pieces.push(piece as Buffer)
  const text = Buffer.concat(pieces).toString()
  const planned = plannedFault(`${method} ${url}`)
  if (planned?.do === 'die') process.exit(1)
  if (planned?.do === 'hang') return
  const fault = planned?.do === 'refuse' ? planned.message : answered(method, url, text)
  if (method === 'GET' && fault === undefined) {
    response.end(JSON.stringify({ id: 'machine', state, vmm_version: version, app_name: 'Firecracker' }))
  } else if (fault === undefined) {
    response.writeHead(204).end()
  } else {
    response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ fault_message: fault }))
  }
}

function plannedFault(request: string): { readonly do: string; readonly message: string } | undefined {
  const path = join(parts, 'faults.json')
  if (!existsSync(path)) return undefined
  const faults: unknown = JSON.parse(readFileSync(path, 'utf8'))
  const found = isRecord(faults) ? faults[request] : undefined
  return isRecord(found) ? { do: String(found.do), message: String(found.message) } : undefined
}

/** The fault of a request; undefined when it is carried out. */
function answered(method: string, url: string, text: string): string | undefined {
  if (method === 'GET' && url === '/') return undefined
  if (text.length > longestBody) return 'HTTP payload limit exceeded.'
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return 'An error occurred when deserializing the json body of a request.'
  }
  const request = url.startsWith('/drives/') ? `${method} /drives` : `${method} ${url}`
  const wrong = bodyFault(request, body)
  if (wrong !== undefined || !isRecord(body)) return wrong ?? 'The body is no object.'
  const isPost = request === 'PATCH /vm' || request === 'PUT /snapshot/create'
  if (isPost && state === 'Not started') {
    return 'The requested operation is not supported before starting the microVM.'
  }
  if (!isPost && state !== 'Not started') {
    return 'The requested operation is not supported after starting the microVM.'
  }
  return carriedOut(request, url, body)
}

function carriedOut(request: string, url: string, body: Fields): string | undefined {
  if (request === 'PATCH /vm') return changeState(body)
  if (request === 'PUT /snapshot/create') return createSnapshot(body)
  if (request === 'PUT /snapshot/load') return loadSnapshot(body)
  if (request === 'PUT /actions') return startInstance()
  isConfigured = true
  if (request === 'PUT /machine-config') return machineFault(body)
  if (request === 'PUT /boot-source') {
    const missing = [body.kernel_image_path, body.initrd_path].find((path) => !isFile(path))
    if (missing !== undefined) return `The kernel file cannot be opened: No such file or directory (os error 2)`
    config.boot = body
  } else if (request === 'PUT /drives') {
    if (url !== `/drives/${String(body.drive_id)}`) return 'The id from the path does not match the id from the body!'
    if (!isFile(body.path_on_host)) return 'Unable to open the block device file: No such file or directory.'
    config.drives.push(body)
  } else if (request === 'PUT /vsock') {
    config.vsock = body
  }
  return undefined
}

function isFile(path: unknown): boolean {
  return typeof path === 'string' && existsSync(inJail(path)) && statSync(inJail(path)).isFile()
}

function machineFault(body: Fields): string | undefined {
  const processors = Number(body.vcpu_count)
  const isWrong = processors < 1 || processors > 32 || (processors > 1 && processors % 2 === 1)
  if (isWrong) return 'The vCPU number is invalid! The vCPU number can only be 1 or an even number when SMT is enabled.'
  if (Number(body.mem_size_mib) < 1) return 'The memory size (MiB) is invalid.'
  config.machine = body
  return undefined
}

function startInstance(): string | undefined {
  const { boot, vsock } = config
  if (boot === undefined) return 'Cannot start microvm without kernel configuration.'
  if (readFileSync(inJail(String(boot.kernel_image_path))).toString('latin1', 0, 4) !== '\x7fELF') {
    return 'Cannot load kernel due to invalid memory configuration or invalid kernel image: Invalid Elf magic number'
  }
  if (vsock === undefined) return undefined
  state = 'Running'
  return startGuest(String(boot.boot_args), String(vsock.uds_path))
}

/** What the kernel and the first process of the image make of the arguments. */
function startGuest(boot: string, socket: string, given?: readonly string[]): string | undefined {
  const filter = / -- guest (\/gantry\/filters\/\w+)$/.exec(boot)?.[1]
  if (filter === undefined || !boot.includes(' gantry.channel=vsock ')) return 'The kernel would find no guest.'
  const path = inJail(socket)
  if (existsSync(path)) return 'Cannot create backend for vsock device: UnixBind(Os { code: 98, kind: AddrInUse })'
  const machine = createGuest({
    parts,
    filter,
    ...(given === undefined ? {} : { given }),
    onEnd: () => process.exit(0),
  })
  guest = machine
  createSocketServer((host) => joinGuest(machine, host)).listen(path)
  return undefined
}

/** `CONNECT PORT` of the host; a connection to a port at which the guest does not listen is ended. */
function joinGuest(machine: Guest, host: Socket): void {
  let line = ''
  const take = (piece: Buffer): void => {
    line += piece.toString('latin1')
    if (!line.includes('\n')) return
    host.off('data', take)
    if (line !== 'CONNECT 1024\n') return void host.destroy()
    host.write('OK 1073741824\n')
    machine.accept(host)
  }
  host.on('error', () => undefined)
  host.on('data', take)
}

function changeState({ state: wanted }: Fields): undefined {
  state = wanted === 'Paused' ? 'Paused' : 'Running'
  if (state === 'Paused') guest?.pause()
  else guest?.resume()
}

function createSnapshot(body: Fields): string | undefined {
  if (state !== 'Paused') return 'Cannot save the microVM state: the microVM is not paused.'
  const content = JSON.stringify({ config, given: guest?.given() ?? [] })
  writeFileSync(inJail(String(body.snapshot_path)), JSON.stringify({ version, crc: crc32(content), content }))
  const memory = openSync(inJail(String(body.mem_file_path)), 'w')
  ftruncateSync(memory, memoryBytes())
  closeSync(memory)
  return undefined
}

function memoryBytes(): number {
  return Number(config.machine.mem_size_mib) * 2 ** 20
}

interface Saved {
  readonly config: Config
  readonly given: readonly string[]
}

function loadSnapshot(body: Fields): string | undefined {
  const prefix = 'Load snapshot error: '
  if (isConfigured) return `${prefix}Loading a microVM snapshot not allowed after configuring boot-specific resources.`
  const { mem_backend: backend } = body
  if (!isFile(body.snapshot_path))
    return `${prefix}Failed to open snapshot file: No such file or directory (os error 2)`
  const { crc, content } = JSON.parse(readFileSync(inJail(String(body.snapshot_path)), 'utf8'))
  if (crc !== crc32(content)) return `${prefix}CRC64 validation failed`
  const saved = JSON.parse(content) as Saved
  config = saved.config
  const memory = isRecord(backend) ? inJail(String(backend.backend_path)) : ''
  if (!existsSync(memory) || statSync(memory).size !== memoryBytes()) return `${prefix}Failed to load guest memory.`
  const missing = config.drives.find(({ path_on_host: path }) => !isFile(path))
  if (missing !== undefined) return `${prefix}Unable to open the block device file.`
  const fault = startGuest(String(config.boot?.boot_args), String(config.vsock?.uds_path), saved.given)
  if (fault === undefined) state = body.resume_vm === true ? 'Running' : 'Paused'
  return fault
}
