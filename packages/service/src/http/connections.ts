import type { IncomingMessage } from 'node:http'
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
 * The connections of a server, of which there are few. A connection is idle while no request of it is being handled, and
 * anonymous until a request of it was authenticated.
 *
 * | event | what happens |
 * | --- | --- |
 * | a new one, and its address has as many as it may | the address loses its least recently used anonymous one, else its least recently used idle one, else one whose request is still arriving |
 * | a new one, and the server is full | the least recently used anonymous one is closed, else an idle one of the tenant that has most, else one whose request is still arriving |
 * | neither has one to lose | the new one is closed |
 * | an anonymous one reaches its age | it is closed, at the latest after twice that |
 *
 * Of requests that are still arriving, the tenant that has most of them loses the one that began first: only their clients
 * decide when they end, so that a few tenants could otherwise hold every connection.
 */
export interface Connections {
  /** Admits a connection; false when it was closed instead. */
  accept(socket: Socket): boolean
  /** The TLS socket of an admitted connection stands for it from now on. */
  secured(raw: Socket, secure: Socket): void
  /** A request is being handled until the returned function is called. */
  begin(socket: Socket, request: IncomingMessage): () => void
  /**
   * A request of the connection was authenticated. Throws RATE_LIMITED when requests of its tenant or its principal take
   * so many connections already that others would find none.
   */
  authenticated(socket: Socket, identity: Identity): void
  readonly size: number
}

interface Connection {
  socket: Socket
  readonly address: string | undefined
  owner: { readonly tenant: string; readonly principal: string } | undefined
  /** Requests that are being handled. */
  busy: number
  /** The one that began last. */
  request: IncomingMessage | undefined
  readonly age: NodeJS.Timeout
}

/** Which part of all connections requests of one tenant, and of one principal, may take at a time, and at most. */
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
  /** Closes a connection so that there is room for another one; false when there is none to close. */
  const close = (one: Connection | undefined): boolean => {
    if (one === undefined) return false
    forget(one)
    one.socket.destroy()
    return true
  }
  const leastUsed = (): Connection | undefined => {
    // Busy or not: a newcomer has yet to send its request, and would go before those that hang in theirs.
    const [stranger] = anonymous
    if (stranger !== undefined) return stranger
    for (const own of byTenant.bySize()) {
      const idle = first(own, isIdle)
      if (idle !== undefined) return idle
    }
    return firstArriving(all)
  }
  const isRoom = (address: string | undefined): boolean => {
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
      if (socket.destroyed || !isRoom(address)) {
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

/** Of the tenant that has most requests that are still arriving, the one that began first. */
function firstArriving(among: ReadonlySet<Connection>): Connection | undefined {
  const arriving = [...among].filter(({ request }) => request?.complete === false)
  const groups = Map.groupBy(arriving, ({ owner }) => owner?.tenant)
  const [largest] = [...groups.values()].sort((a, b) => b.length - a.length)
  return largest?.[0]
}

function keysOf(owner: Connection['owner']): readonly string[] {
  return owner === undefined ? [] : [JSON.stringify([owner.tenant]), JSON.stringify([owner.tenant, owner.principal])]
}

/** Connections by a name; those without one are in no group. */
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

/** Addresses and networks that stand for many clients. */
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
  // An IPv4 address that is written as one of IPv6 is found under rules of IPv4 too.
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/**
 * What counts as one client: an IPv4 address, also when it is written as one of IPv6, and the first 64 bits of an IPv6
 * address, because one client has all of those that follow.
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
