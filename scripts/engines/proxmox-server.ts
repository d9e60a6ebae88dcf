import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { createLxcHost, type LxcSettings } from './lxc.ts'

/**
 * A server that keeps to the published API of Proxmox VE for containers of one node, as far as sandboxes use it: paths,
 * parameters, words of errors, locks and tasks are those of pve-container 6 (PVE::API2::LXC, PVE::LXC::Config). Its
 * containers are real ones of plain LXC. What it is configured to do wrong is in `faults`.
 */
export interface ProxmoxServerSettings extends LxcSettings {
  readonly port: number
  readonly certFile: string
  readonly keyFile: string
  readonly tokenId: string
  readonly token: string
  readonly node: string
  readonly vmid: number
  /** Settings of the template in addition to the usual ones. */
  readonly control: string
}

/** Faults, each for the next `count` requests or tasks that match. */
export interface ProxmoxFault {
  readonly kind: 'locked' | 'denied' | 'task-fails' | 'id-taken' | 'hang'
  /** Begins the method and the path below the node: `POST /lxc/100/clone`; or the type of the task. */
  readonly where: string
  count: number
}

type Config = Record<string, string | number>

interface Task {
  readonly status: 'running' | 'stopped'
  readonly exitstatus?: string
}

class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const settings: ProxmoxServerSettings = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'))
const { node, folder, vmid: template } = settings
const lxc = createLxcHost(settings)
const configs = join(folder, 'configs')
const tasks = new Map<string, Task>()
const faults: ProxmoxFault[] = []
const requests: string[] = []
/** Work on the configuration of a container is done one after the other, as under `lock_config`. */
const busy = new Map<number, Promise<unknown>>()
let taskCount = 0

mkdirSync(configs, { recursive: true })
if (!existsSync(fileOf(template))) {
  write(template, {
    arch: 'amd64',
    ostype: 'debian',
    hostname: 'gantry-template',
    template: 1,
    unprivileged: 1,
    memory: 512,
    rootfs: `local:base-${template}-disk-0,size=1G`,
  })
}

/** Workers of a node go on while its API is restarted: a clone that was under way is finished, and its locks are gone. */
for (const name of readdirSync(configs)) {
  const { lock: _, ...config } = read(Number.parseInt(name, 10))
  write(Number.parseInt(name, 10), config)
}

function fileOf(vmid: number): string {
  return join(configs, `${vmid}.json`)
}

function read(vmid: number): Config {
  try {
    return JSON.parse(readFileSync(fileOf(vmid), 'utf8'))
  } catch {
    throw new Refusal(500, `Configuration file 'nodes/${node}/lxc/${vmid}.conf' does not exist`)
  }
}

function write(vmid: number, config: Config): void {
  writeFileSync(fileOf(vmid), JSON.stringify(config))
}

function checkLock({ lock }: Config): void {
  if (lock !== undefined) throw new Refusal(500, `CT is locked (${lock})`)
}

/** Whether a configured fault meets this; it counts down. */
function hasFault(kind: ProxmoxFault['kind'], where: string): boolean {
  const fault = faults.find((one) => one.kind === kind && one.count > 0 && where.startsWith(one.where))
  if (fault === undefined) return false
  fault.count -= 1
  return true
}

function underLock<T>(vmid: number, work: () => Promise<T> | T): Promise<T> {
  const own = (busy.get(vmid) ?? Promise.resolve()).then(work)
  busy.set(
    vmid,
    own.catch(() => undefined),
  )
  return own
}

/** `undo` is what a worker does when its task fails. */
function task(
  type: string,
  vmid: number,
  work: () => Promise<void> | void,
  undo: () => void = () => undefined,
): string {
  taskCount += 1
  const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0')
  const upid = `UPID:${node}:${hex(process.pid)}:${hex(taskCount)}:${hex(Math.floor(Date.now() / 1_000))}:${type}:${vmid}:${settings.tokenId}:`
  tasks.set(upid, { status: 'running' })
  const end = (exitstatus: string): void => void tasks.set(upid, { status: 'stopped', exitstatus })
  const run = async (): Promise<void> => {
    await pause(10)
    if (hasFault('task-fails', type)) throw new Error('command failed: exit code 1')
    await work()
  }
  run().then(
    () => end('OK'),
    (error: Error) => {
      undo()
      end(error.message)
    },
  )
  return upid
}

function clone({ newid, hostname, description, ...rest }: Record<string, string>): string {
  const vmid = Number(newid)
  if (!Number.isInteger(vmid) || vmid < 100)
    throw new Refusal(400, 'Parameter verification failed. newid: invalid format')
  const unknown = Object.keys(rest).find(
    (name) => !['pool', 'full', 'storage', 'snapname', 'target', 'bwlimit'].includes(name),
  )
  if (unknown !== undefined)
    throw new Refusal(400, `Parameter verification failed. ${unknown}: property is not defined in schema`)
  const source = read(template)
  checkLock(source)
  if (hasFault('id-taken', '') || existsSync(fileOf(vmid)))
    throw new Refusal(500, `CT ${vmid} already exists on node '${node}'`)
  write(template, { ...source, lock: 'disk' })
  const { template: _, lock: __, ...copied } = source
  const config: Config = {
    ...copied,
    rootfs: `local:base-${template}-disk-0/vm-${vmid}-disk-0,size=1G`,
    lock: 'create',
  }
  if (hostname !== undefined) config.hostname = hostname
  // Comments of a configuration end with a line feed.
  if (description !== undefined) config.description = `${description}\n`
  write(vmid, config)
  const release = (): void => write(template, source)
  const finish = (): void => {
    const { lock: _lock, ...unlocked } = config
    write(vmid, unlocked)
    release()
  }
  return task('vzclone', template, finish, () => {
    rmSync(fileOf(vmid), { force: true })
    release()
  })
}

function update(vmid: number, given: Record<string, string>): null {
  const config = read(vmid)
  checkLock(config)
  write(vmid, { ...config, ...given })
  return null
}

function start(vmid: number): string {
  read(vmid)
  if (lxc.isRunning(vmid)) throw new Refusal(500, `CT ${vmid} already running`)
  return task('vzstart', vmid, () =>
    underLock(vmid, async () => {
      const config = read(vmid)
      if (config.template !== undefined) throw new Error("you can't start a CT if it's a template")
      checkLock(config)
      const net: Record<string, string | undefined> = Object.fromEntries(
        String(config.net0 ?? '')
          .split(',')
          .map((pair) => pair.split('=')),
      )
      const root = lxc.mount(vmid)
      mkdirSync(join(root, 'etc/network'), { recursive: true })
      writeFileSync(
        join(root, 'etc/network/interfaces'),
        `auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress ${net.ip}\n\n`,
      )
      await lxc.start({
        vmid,
        hostname: String(config.hostname),
        memory: Number(config.memory),
        cpulimit: Number(config.cpulimit ?? 1),
        hardware: net.hwaddr ?? '',
      })
    }),
  )
}

function statusOf(vmid: number): object {
  read(vmid)
  return { vmid, status: lxc.isRunning(vmid) ? 'running' : 'stopped' }
}

function destroy(vmid: number, { force }: Record<string, string>): string {
  const config = read(vmid)
  checkLock(config)
  if (force !== '1' && lxc.isRunning(vmid))
    throw new Refusal(500, `unable to destroy CT ${vmid} - container is running`)
  return task('vzdestroy', vmid, () =>
    underLock(vmid, async () => {
      checkLock(read(vmid))
      lxc.stop(vmid)
      while (lxc.isRunning(vmid)) await pause(5)
      lxc.destroy(vmid)
      rmSync(fileOf(vmid), { force: true })
    }),
  )
}

function listed(): readonly object[] {
  return readdirSync(configs).map((name) => {
    const vmid = Number.parseInt(name, 10)
    const { hostname, lock, tags, template: isTemplate } = read(vmid)
    const status = lxc.isRunning(vmid) ? 'running' : 'stopped'
    return {
      vmid,
      name: hostname,
      status,
      type: 'lxc',
      ...(lock === undefined ? {} : { lock }),
      ...(tags === undefined ? {} : { tags }),
      ...(isTemplate === undefined ? {} : { template: 1 }),
    }
  })
}

async function answer(method: string, path: string, given: Record<string, string>): Promise<unknown> {
  if (method === 'GET' && path === '/version') return { version: '8.4.1', release: '8.4', repoid: 'contract' }
  if (method === 'GET' && path === '/cluster/resources')
    return listed().map((row) => ({ ...row, node, id: `lxc/${(row as { vmid: number }).vmid}` }))
  const own = `/nodes/${node}`
  if (!path.startsWith(own)) throw new Refusal(404, `Path '${path}' not found`)
  const rest = path.slice(own.length)
  const where = `${method} ${rest}`
  if (hasFault('denied', where)) throw new Refusal(403, `Permission check failed (/vms/${template}, VM.Clone)`)
  if (hasFault('locked', where)) throw new Refusal(500, 'CT is locked (backup)')
  if (hasFault('hang', where)) await pause(3_600_000)
  const upid = /^\/tasks\/([^/]+)\/status$/.exec(rest)?.[1]
  if (upid !== undefined && method === 'GET') {
    const found = tasks.get(decodeURIComponent(upid))
    // Of a task whose worker was killed.
    return {
      ...(found ?? { status: 'stopped', exitstatus: 'unexpected status' }),
      upid: decodeURIComponent(upid),
      node,
    }
  }
  if (rest === '/lxc' && method === 'GET') return listed()
  const [, id = '', action = ''] = /^\/lxc\/(\d+)(\/.*)?$/.exec(rest) ?? []
  const vmid = Number(id)
  const routes: { readonly [route: string]: () => unknown } = {
    'GET /config': () => ({ ...read(vmid), digest: 'd'.repeat(40) }),
    'PUT /config': () => underLock(vmid, () => update(vmid, given)),
    'POST /clone': () => clone(given),
    'POST /status/start': () => start(vmid),
    'GET /status/current': () => statusOf(vmid),
    'DELETE ': () => destroy(vmid, given),
  }
  const route = id === '' ? undefined : routes[`${method} ${action}`]
  if (route === undefined) throw new Refusal(501, `Method '${method} ${path}' not implemented`)
  return route()
}

/** What tests tell the server; not part of the API. */
function control(path: string, body: string): unknown {
  if (path === '/_control/fault') faults.push(JSON.parse(body))
  if (path === '/_control/config') write(template, { ...read(template), ...JSON.parse(body) })
  if (path === '/_control/container') write(JSON.parse(body).vmid, JSON.parse(body).config)
  if (path === '/_control/template') writeFileSync(fileOf(template), body)
  if (path === '/_control/stop') lxc.stop(JSON.parse(body).vmid)
  return { requests: requests.splice(0), containers: listed(), config: read(template) }
}

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '', 'https://local')
  const body = (await buffer(request)).toString()
  const send = (status: number, document: object, reason?: string): void => {
    // The reason is in the first line of the response, as Proxmox sends it.
    response.writeHead(status, reason?.replace(/[^\x20-\x7e]/g, ' ') ?? 'OK', {
      'content-type': 'application/json;charset=UTF-8',
    })
    response.end(JSON.stringify(document))
  }
  try {
    if (request.headers['x-control'] === settings.control) return send(200, { data: control(url.pathname, body) })
    if (request.headers.authorization !== `PVEAPIToken=${settings.tokenId}=${settings.token}`)
      throw new Refusal(401, 'invalid token value!')
    const path = url.pathname.replace(/^\/api2\/json/, '')
    requests.push(`${request.method} ${path}`)
    const given = Object.fromEntries(
      request.method === 'GET' || request.method === 'DELETE' ? url.searchParams : new URLSearchParams(body),
    )
    send(200, { data: await answer(request.method ?? '', path, given) })
  } catch (error) {
    const { status = 500, message } = error as Refusal
    send(status, { data: null, message: `${message}\n` }, message)
  }
}

createServer(
  { cert: readFileSync(settings.certFile), key: readFileSync(settings.keyFile) },
  (request, response) => void handle(request, response),
).listen(settings.port, '127.0.0.1')
