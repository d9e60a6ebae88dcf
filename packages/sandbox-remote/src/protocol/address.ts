/** Whether a name can only mean this machine. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, '$1')
  return name === 'localhost' || name === '::1' || /^127(?:\.\d{1,3}){3}$/.test(name)
}

export const keyIdMember = {
  type: 'string',
  pattern: '^[A-Za-z0-9_.-]{1,64}$',
  description: 'a name of at most 64 letters, digits, "_", "." and "-"',
}

const [shortestKey, longestKey] = [32, 512]

/** Returns what is wrong with a shared key; the key is never part of a message. */
export function keyRule(value: string): string | undefined {
  const fits = value.length >= shortestKey && value.length <= longestKey
  return fits ? undefined : `must have ${shortestKey} to ${longestKey} characters`
}

/** Returns what is wrong with the URL of a runtime server; undefined when it is valid. */
export function urlFault(value: string): string | undefined {
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol)) return 'must be a URL such as https://host:7421'
  if (url.username !== '' || url.password !== '') return 'must not hold credentials; use keyId and key'
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') return 'must end after the port'
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
    return 'must be https:, because it is not on this machine; the host serves TLS with runtimeServer.tls'
  }
  return undefined
}
