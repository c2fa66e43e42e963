// node .ci/newest.mjs PYODIDE PACKAGES > documents.json: the documents of .ci/newest.py on the Python of Pyodide, a folder
// as npm has it, with the packages in another folder.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, packages] = process.argv.slice(2).map((path) => resolve(path));
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const python = await loadPyodide({ stderr: (line) => process.stderr.write(`${line}\n`) });
for (const [name, folder] of [["checkout", resolve(".")], ["packages", packages]]) {
  python.FS.mkdir(`/${name}`);
  python.mountNodeFS(`/${name}`, folder);
}
python.runPython(`
import runpy, sys
sys.path[:0] = ["/checkout", "/packages"]
sys.argv = ["newest.py"]
print(sys.version.split()[0], file=sys.stderr)
try:
    runpy.run_path("/checkout/.ci/newest.py", run_name="__main__")
except SystemExit as end:
    assert not end.code
`);
