import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A certificate with its key, each in a file of PEM. */
export interface Certificate {
  readonly certFile: string
  readonly keyFile: string
}

export interface IssueOptions {
  /** Subject alternative names; 127.0.0.1 and localhost when absent. */
  readonly hosts?: readonly string[]
  /** Its common name; `gantry-test` when absent. */
  readonly name?: string
  /** Validity from now; -1 is expired. */
  readonly days?: number
}

/** A test certificate authority, in a folder that `remove` deletes. */
export interface Authority {
  readonly caFile: string
  readonly ca: string
  readonly folder: string
  issue(options?: IssueOptions): Certificate
  remove(): void
}

/** Creates an authority with OpenSSL; a client that is given it trusts no other certificates. */
export function makeAuthority(name = 'Gantry tests'): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-ca-'))
  const caFile = join(folder, 'ca.pem')
  const caKey = join(folder, 'ca.key')
  openssl('req', '-x509', ...newKey(caKey), '-subj', `/CN=${name}`, '-days', '2', '-out', caFile)
  let issued = 0
  return {
    caFile,
    folder,
    ca: readFileSync(caFile, 'utf8'),
    issue({ hosts = ['127.0.0.1', 'localhost'], name: own = 'gantry-test', days = 1 } = {}) {
      issued += 1
      const [keyFile, certFile] = [join(folder, `${issued}.key`), join(folder, `${issued}.pem`)]
      const [request, extensions] = [join(folder, `${issued}.csr`), join(folder, `${issued}.ext`)]
      writeFileSync(extensions, `subjectAltName=${hosts.map(altName).join(',')}\n`)
      openssl('req', ...newKey(keyFile), '-subj', `/CN=${own}`, '-out', request)
      const by = ['-CA', caFile, '-CAkey', caKey, '-extfile', extensions, '-days', String(days)]
      openssl('x509', '-req', '-in', request, ...by, '-out', certFile)
      return { certFile, keyFile }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

function newKey(file: string): string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', file]
}

function altName(host: string): string {
  return /^[\d.]+$|:/.test(host) ? `IP:${host}` : `DNS:${host}`
}

function openssl(...args: readonly string[]): void {
  const { status, error, stderr } = spawnSync('openssl', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`openssl ${args[0]} failed: ${error?.message ?? stderr}`)
}
