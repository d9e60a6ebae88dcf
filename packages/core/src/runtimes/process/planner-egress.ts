/** Where the guarded way out is inside a sandbox: a socket, and the port of the loopback that leads to it. */
export const egressInside = { socket: '/gantry/egress/proxy.sock', port: 3_128 } as const

const loopback = /^https?:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::|\/|$)/i

/**
 * What tells programs to go through the guarded way out. Twice, because half of them read small letters only. The
 * loopback is excepted, so that a program reaches what it serves itself, unless that of the host is what may be reached.
 */
export function egressEnvironment(allow: readonly string[]): { readonly [name: string]: string } {
  const proxy = `http://127.0.0.1:${egressInside.port}`
  const direct = allow.some((origin) => loopback.test(origin)) ? '' : 'localhost,127.0.0.1,::1'
  const named = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: direct }
  const small = Object.entries(named).map(([name, value]) => [name.toLowerCase(), value])
  return { ...named, ...Object.fromEntries(small), NODE_USE_ENV_PROXY: '1' }
}
