import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { test } from 'node:test'
import { noBubblewrap } from '@gantry/conformance/internal/sandbox-test'

const findsPip = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pip") is None)'
const hasPip = spawnSync('/usr/bin/python3', ['-c', findsPip]).status === 0
const skip = noBubblewrap ?? (hasPip ? undefined : 'pip is not installed; apt-get install python3-pip')

/** A test that builds packages with pip; skipped, with the reason, where that cannot be. */
export function packageTest(title: string, body: () => Promise<void>): void {
  test(title, skip === undefined ? {} : { skip }, body)
}

const makeWheel = `
import json, sys, zipfile
folder, name, version, files = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
info = f'{name}-{version}.dist-info'
files = {**files, f'{info}/METADATA': f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n',
  f'{info}/WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'}
files[f'{info}/RECORD'] = ''.join(f'{path},,\\n' for path in [*files, f'{info}/RECORD'])
with zipfile.ZipFile(f'{folder}/{name}-{version}-py3-none-any.whl', 'w') as archive:
    for path, text in files.items(): archive.writestr(zipfile.ZipInfo(path), text)
`

/** Writes a wheel of a pure package into a folder. */
export function writeWheel(
  folder: string,
  name: string,
  version: string,
  files: { readonly [path: string]: string },
): void {
  mkdirSync(folder, { recursive: true })
  execFileSync('/usr/bin/python3', ['-c', makeWheel, folder, name, version, JSON.stringify(files)])
}

const makeSource = `
import io, sys, tarfile
folder, name, code = sys.argv[1:]
with tarfile.open(f'{folder}/{name}-1.0.tar.gz', 'w:gz') as archive:
    for path, text in {'setup.py': code, 'PKG-INFO': f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n'}.items():
        entry = tarfile.TarInfo(f'{name}-1.0/{path}')
        entry.size = len(text.encode())
        archive.addfile(entry, io.BytesIO(text.encode()))
`

/** Writes a source package whose `setup.py` is this code. */
export function writeSource(folder: string, name: string, code: string): void {
  execFileSync('/usr/bin/python3', ['-c', makeSource, folder, name, code])
}

/** Makes pip take packages from a folder only; its own files stay as they are. */
export function useWheels(folder: string): void {
  Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: folder, PIP_CONFIG_FILE: '/dev/null' })
}
