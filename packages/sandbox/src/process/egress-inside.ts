import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'

/** The egress proxy as seen inside a sandbox: its socket, and the loopback port that is relayed to it. */
export const egressInside = { socket: '/gantry/egress/proxy.sock', port: 3_128 } as const

/** Certificate files beside the socket: the sandbox's own CA, and the bundle with all others. */
const certificateFiles = { own: 'authority.pem', all: 'certificates.pem' } as const

/** Variables that programs and libraries read instead of the system's bundle. Node adds its file to its built-in CAs. */
const certificateVariables = [
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
  'AWS_CA_BUNDLE',
  'CARGO_HTTP_CAINFO',
  'NPM_CONFIG_CAFILE',
  'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'HTTPLIB2_CA_CERTS',
]

/** Paths of the system's CA bundle. */
const systemBundles = [
  'etc/ssl/certs/ca-certificates.crt',
  'etc/pki/tls/certs/ca-bundle.crt',
  'etc/ssl/ca-bundle.pem',
  'etc/ssl/cert.pem',
]

/** The environment that makes programs trust the sandbox's own CA. */
export function certificateEnvironment(): { readonly [name: string]: string } {
  const all = `/gantry/egress/${certificateFiles.all}`
  const named = Object.fromEntries(certificateVariables.map((name) => [name, all]))
  return { ...named, NODE_EXTRA_CA_CERTS: `/gantry/egress/${certificateFiles.own}` }
}

/** Writes the CA certificate beside the socket in the sandbox's folder; the key stays in this process. */
export async function writeCertificates(folder: string, certificate: string, rootfs = '/'): Promise<void> {
  const files = {
    [certificateFiles.own]: certificate,
    [certificateFiles.all]: `${await bundleOf(rootfs)}\n${certificate}`,
  }
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), text, { flag: 'wx' })
    await chmod(join(folder, name), 0o444)
  }
}

/** The CA bundle of the sandbox's system, or that of Node when there is none. */
async function bundleOf(rootfs: string): Promise<string> {
  for (const path of systemBundles) {
    const text = await readFile(join(rootfs, path), 'latin1').catch(() => '')
    if (text.includes('-----BEGIN CERTIFICATE-----')) return text
  }
  return rootCertificates.join('\n')
}

const loopback = /^https?:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::|\/|$)/i

/**
 * Environment that makes programs use the egress proxy. In upper and lower case, because many programs read only lower
 * case. The loopback is excluded, so that a program reaches its own servers, unless the host's loopback is an allowed origin.
 */
export function egressEnvironment(allow: readonly string[]): { readonly [name: string]: string } {
  const proxy = `http://127.0.0.1:${egressInside.port}`
  const direct = allow.some((origin) => loopback.test(origin)) ? '' : 'localhost,127.0.0.1,::1'
  const named = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: direct }
  const small = Object.entries(named).map(([name, value]) => [name.toLowerCase(), value])
  return { ...named, ...Object.fromEntries(small), NODE_USE_ENV_PROXY: '1' }
}
