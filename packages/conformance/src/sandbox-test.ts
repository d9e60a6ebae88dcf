import { existsSync } from 'node:fs'
import { test } from 'node:test'

const places = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap']

/** Why there is no `process` runtime to test here; undefined when there is. */
export const noBubblewrap: string | undefined = places.some((path) => existsSync(path))
  ? undefined
  : 'bubblewrap is not installed; apt-get install bubblewrap'

/** Missing programs of this machine for the suite of runtimes; empty where everything is installed. */
export const lackingPrograms: { readonly c?: string } = existsSync('/usr/bin/cc')
  ? {}
  : { c: 'there is no C compiler; apt-get install gcc libc6-dev' }

/** A test that needs the `process` runtime; skipped, with the reason, where that cannot be. */
export function sandboxTest(title: string, body: () => Promise<void>): void {
  test(title, noBubblewrap === undefined ? {} : { skip: noBubblewrap }, body)
}
