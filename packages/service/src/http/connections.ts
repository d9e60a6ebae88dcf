import type { IncomingMessage, ServerResponse } from 'node:http'
import { BlockList, isIP, type Socket } from 'node:net'
import { type Identity, ToolError } from '@gantry/contract'
import type { HttpLimits } from './limits.ts'

export type ConnectionLimits = Pick<
  HttpLimits,
  | 'connections'
  | 'connectionsPerAddress'
  | 'sharedAddresses'
  | 'unauthenticatedMs'
  | 'waitingPerTenant'
  | 'waitingPerPrincipal'
>

/**
 * The limited connections of a server. A connection is idle while no request of it is being handled, and anonymous
 * until a request of it was authenticated.
 * | ## When a connection is closed
 * - A new connection exceeds the limit of its address: the address loses its least recently used anonymous connection,
 *   else its least recently used idle one, else one whose request is still arriving.
 * - A new connection exceeds the limit of the server: the least recently used anonymous connection is closed, else an
 *   idle one of the tenant with the most, else one whose request is still arriving.
 * - In both cases there is none to close: the new connection is closed.
 * - An anonymous connection reaches its age: it is closed, at the latest after twice that.
 * | Of requests that are still arriving, the tenant with the most loses the one that began first: only their clients
 * decide when they end, so that a few tenants could otherwise hold every connection.
 */
export interface Connections {
  /** Admits a connection; false when it was closed instead. */
  accept(socket: Socket): boolean
  /** Replaces an admitted connection by its TLS socket. */
  secured(raw: Socket, secure: Socket): void
  /** Marks a request as being handled until the returned function is called. */
  begin(socket: Socket, request: IncomingMessage): () => void
  /**
   * Marks the connection as authenticated. Throws RATE_LIMITED when requests of the tenant or the principal already
   * take so many connections that others would find none.
   */
  authenticated(socket: Socket, identity: Identity): void
  readonly size: number
}

interface Connection {
  socket: Socket
  readonly address: string | undefined
  owner: { readonly tenant: string; readonly principal: string } | undefined
  /** The number of requests that are being handled. */
  busy: number
  /** The request that began last. */
  request: IncomingMessage | undefined
  readonly age: NodeJS.Timeout
}

/**
 * The share of all connections that requests of one tenant, and of one principal, may take at a time, and their upper
 * limit.
 */
const parts = { tenant: 0.75, principal: 0.5, most: 0.9 }
const retryAfterMs = 1_000

export function createConnections(limits: ConnectionLimits): Connections {
  const known = new WeakMap<Socket, Connection>()
  /** Each set is in the order of use, the least recently used first. */
  const all = new Set<Connection>()
  const byAddress = groups()
  const byTenant = groups()
  const anonymous = new Set<Connection>()
  const busyOf = new Map<string, number>()
  const shared = sharedList(limits.sharedAddresses)

  const count = ({ owner }: Connection, by: 1 | -1): void => {
    for (const key of keysOf(owner)) {
      const number = (busyOf.get(key) ?? 0) + by
      if (number > 0) busyOf.set(key, number)
      else busyOf.delete(key)
    }
  }
  const place = (one: Connection): void => {
    unplace(one)
    all.add(one)
    byAddress.add(one.address, one)
    if (one.owner !== undefined) byTenant.add(one.owner.tenant, one)
    else anonymous.add(one)
  }
  const unplace = (one: Connection): void => {
    all.delete(one)
    byAddress.remove(one.address, one)
    byTenant.remove(one.owner?.tenant, one)
    anonymous.delete(one)
  }
  const forget = (one: Connection): void => {
    clearTimeout(one.age)
    if (all.has(one) && one.busy > 0) count(one, -1)
    unplace(one)
  }
  /** Closes a connection to make space for another one; false when there is none to close. */
  const close = (one: Connection | undefined): boolean => {
    if (one === undefined) return false
    forget(one)
    one.socket.destroy()
    return true
  }
  const leastUsed = (): Connection | undefined => {
    // Busy or not: a new connection has yet to send its request, and would otherwise be closed before those that hang
    // in theirs.
    const [stranger] = anonymous
    if (stranger !== undefined) return stranger
    for (const own of byTenant.bySize()) {
      const idle = first(own, isIdle)
      if (idle !== undefined) return idle
    }
    return firstArriving(all)
  }
  const hasFreeSlot = (address: string | undefined): boolean => {
    const { connections, connectionsPerAddress = Math.max(1, Math.floor(connections / 2)) } = limits
    const own = byAddress.of(address)
    if (own.size >= connectionsPerAddress) {
      return close(first(own, isAnonymous) ?? first(own, isIdle) ?? firstArriving(own))
    }
    return all.size < connections || close(leastUsed())
  }
  const age = (socket: Socket, again: boolean): void => {
    const one = known.get(socket)
    if (one === undefined || one.owner !== undefined) return
    if (one.busy === 0 || again) close(one)
    else one.age.refresh()
  }
  return {
    accept(socket) {
      const { remoteAddress } = socket
      const address =
        remoteAddress === undefined || isShared(shared, remoteAddress) ? undefined : addressKey(remoteAddress)
      if (socket.destroyed || !hasFreeSlot(address)) {
        socket.destroy()
        return false
      }
      let times = 0
      const timer = setTimeout(() => age(socket, times++ > 0), limits.unauthenticatedMs).unref()
      const one: Connection = { socket, address, owner: undefined, busy: 0, request: undefined, age: timer }
      known.set(socket, one)
      place(one)
      socket.once('close', () => forget(one))
      return true
    },
    secured(raw, secure) {
      const one = known.get(raw)
      if (one === undefined) return
      one.socket = secure
      known.set(secure, one)
      secure.once('close', () => forget(one))
    },
    begin(socket, request) {
      const one = known.get(socket)
      if (one === undefined) return () => undefined
      one.busy += 1
      one.request = request
      if (all.has(one)) {
        if (one.busy === 1) count(one, 1)
        place(one)
      }
      return () => {
        one.busy -= 1
        if (!all.has(one)) return
        if (one.busy === 0) count(one, -1)
        place(one)
      }
    },
    authenticated(socket, { tenant, principal }) {
      const one = known.get(socket)
      if (one === undefined || !all.has(one)) return
      if (one.owner?.tenant !== tenant || one.owner.principal !== principal) {
        if (one.busy > 0) count(one, -1)
        unplace(one)
        one.owner = { tenant, principal }
        if (one.busy > 0) count(one, 1)
        place(one)
      }
      clearTimeout(one.age)
      const { connections, waitingPerTenant, waitingPerPrincipal } = limits
      const [ofTenant = '', ofPrincipal = ''] = keysOf(one.owner)
      for (const { key, part, waiting, whose } of [
        { key: ofPrincipal, part: parts.principal, waiting: waitingPerPrincipal, whose: 'this principal' },
        { key: ofTenant, part: parts.tenant, waiting: waitingPerTenant, whose: 'this tenant' },
      ]) {
        const share = Math.min(connections * parts.most, Math.max(connections * part, waiting))
        const most = Math.max(1, Math.floor(share))
        if ((busyOf.get(key) ?? 0) > most) throw crowded(most, whose)
      }
    },
    get size() {
      return all.size
    },
  }
}

function isIdle({ busy }: Connection): boolean {
  return busy === 0
}

function isAnonymous({ owner }: Connection): boolean {
  return owner === undefined
}

function first(among: Iterable<Connection>, fits: (one: Connection) => boolean): Connection | undefined {
  for (const one of among) if (fits(one)) return one
  return undefined
}

/** Of the tenant with the most requests that are still arriving, the one that began first. */
function firstArriving(among: ReadonlySet<Connection>): Connection | undefined {
  const arriving = [...among].filter(({ request }) => request?.complete === false)
  const groups = Map.groupBy(arriving, ({ owner }) => owner?.tenant)
  const [largest] = [...groups.values()].sort((a, b) => b.length - a.length)
  return largest?.[0]
}

function keysOf(owner: Connection['owner']): readonly string[] {
  return owner === undefined ? [] : [JSON.stringify([owner.tenant]), JSON.stringify([owner.tenant, owner.principal])]
}

/** Connections by a key; those without one are in no group. */
function groups() {
  const sets = new Map<string, Set<Connection>>()
  const none: ReadonlySet<Connection> = new Set()
  return {
    of: (name: string | undefined): ReadonlySet<Connection> => (name === undefined ? none : (sets.get(name) ?? none)),
    add(name: string | undefined, one: Connection): void {
      if (name === undefined) return
      const set = sets.get(name) ?? new Set()
      sets.set(name, set.add(one))
    },
    remove(name: string | undefined, one: Connection): void {
      const set = name === undefined ? undefined : sets.get(name)
      set?.delete(one)
      if (name !== undefined && set?.size === 0) sets.delete(name)
    },
    bySize: (): readonly ReadonlySet<Connection>[] => [...sets.values()].sort((a, b) => b.size - a.size),
  }
}

/** Addresses and networks that many clients share. */
function sharedList(addresses: readonly string[]): BlockList {
  const list = new BlockList()
  for (const one of addresses) {
    const [address = '', prefix] = one.split('/', 2)
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return list
}

function isShared(list: BlockList, address: string): boolean {
  // An IPv4-mapped IPv6 address is matched by IPv4 rules too.
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/**
 * The unit that counts as one client: an IPv4 address, also a mapped one, and the first 64 bits of an IPv6 address,
 * because one client usually has a whole /64 network.
 */
export function addressKey(address: string): string {
  const [plain = ''] = address.toLowerCase().split('%', 1)
  const mapped = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/.exec(plain)?.[1]
  if (mapped !== undefined) return mapped
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('::', 2)
  const front = head === '' ? [] : head.split(':')
  const back = tail === undefined || tail === '' ? [] : tail.split(':')
  const gap = tail === undefined ? 0 : Math.max(0, 8 - front.length - back.length)
  const groups = [...front, ...Array<string>(gap).fill('0'), ...back]
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}

function crowded(most: number, whose: string): ToolError {
  const message = `${most} requests of ${whose} are being handled already; let some end, then try again.`
  return new ToolError('RATE_LIMITED', message, { stage: 'admit', details: { retryAfterMs, scope: 'caller' } })
}

/**
 * Waits until a request is the first unanswered one of its connection: true once all earlier requests are answered, false when the
 * connection closes before that.
 */
export type Pipelining = (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>

/** The most waiting requests of one connection before it is paused. */
const mostWaiting = 4

/**
 * Node emits every request of a connection as soon as it is read, however many are pipelined; handled concurrently they
 * could take any amount of memory. A request is handled once the responses before it are sent.
 */
export function createPipelining(): Pipelining {
  const lines = new WeakMap<Socket, Set<(mine: boolean) => void>>()
  const lineOf = (socket: Socket): Set<(mine: boolean) => void> => {
    const known = lines.get(socket)
    if (known !== undefined) return known
    const line = new Set<(mine: boolean) => void>()
    lines.set(socket, line)
    socket.once('close', () => {
      for (const settle of line) settle(false)
    })
    // Node resumes the socket by itself once a request is answered, or when its body is read.
    socket.on('resume', () => {
      if (line.size > mostWaiting) socket.pause()
    })
    return line
  }
  return ({ socket }, response) => {
    if (response.socket !== null) return true
    if (socket.destroyed) return false
    const line = lineOf(socket)
    return new Promise((resolve) => {
      const settle = (mine: boolean): void => {
        line.delete(settle)
        if (mine && line.size === mostWaiting) socket.resume()
        resolve(mine)
      }
      line.add(settle)
      response.once('socket', () => settle(true))
      if (line.size > mostWaiting) socket.pause()
    })
  }
}
