import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'

/** Whatever more the words ask for than to be silent, they get all of it: who the server is, is always checked. */
const checked = ['require', 'verify-ca', 'verify-full', 'true', '1']
const without = ['disable', 'false', '0']
const parameters = ['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'uselibpqcompat']

/**
 * Takes what an address says of TLS out of it: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, or PGSSLMODE. The
 * certificate has to be of a trusted authority, and for the host that was asked for. Throws CONFIG_INVALID for a mode
 * that would take anybody for the server, and for files that cannot be read.
 */
export function takeTls(url: URL, environment: NodeJS.ProcessEnv = process.env): ConnectionOptions | false {
  const said = Object.fromEntries(parameters.map((name) => [name, url.searchParams.get(name) ?? undefined]))
  for (const name of parameters) url.searchParams.delete(name)
  const { sslrootcert, sslcert, sslkey } = said
  const files = [sslrootcert, sslcert, sslkey].some((file) => file !== undefined)
  const mode = said.sslmode ?? said.ssl ?? (files ? 'verify-full' : environment.PGSSLMODE || 'disable')
  if (without.includes(mode) && !files) return false
  if (!checked.includes(mode)) throw refused(mode)
  return {
    minVersion: 'TLSv1.2',
    ...(sslrootcert === undefined || sslrootcert === 'system' ? {} : { ca: read(sslrootcert, 'sslrootcert') }),
    ...(sslcert === undefined ? {} : { cert: read(sslcert, 'sslcert') }),
    ...(sslkey === undefined ? {} : { key: read(sslkey, 'sslkey') }),
  }
}

function refused(mode: string): ToolError {
  const message = `The address of the database says sslmode=${mode.slice(0, 20)}, with which anybody could be taken for
    it. Write sslmode=verify-full, with sslrootcert=file for an authority of your own, or sslmode=disable.`
  return new ToolError('CONFIG_INVALID', message.replace(/\s+/g, ' '))
}

function read(file: string, name: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new ToolError(
      'CONFIG_INVALID',
      `The file that the address of the database names as ${name} cannot be read.`,
      {
        cause,
      },
    )
  }
}
