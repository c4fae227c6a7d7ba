/* Other people's tools read our files: names, shapes, types and values through h5py, with numbers
 * that Python computes by itself. Skipped, visibly, where python3 has no h5py.
 */
#include <stdlib.h>

#include "io/checkpoint_sample.h"

static const char script[] =
    "import sys, math, hashlib, h5py, numpy as np\n"
    "f = h5py.File(sys.argv[1], 'r')\n"
    "assert f.attrs['charl_format'] == b'checkpoint' and f.attrs['charl_version'] == 2\n"
    "assert f.attrs['step'] == 7 and f.attrs['complete'] == 1 and f.attrs['writer'] == b'charl "
    "test'\n"
    "assert sorted(f) == ['config', 'data', 'ema', 'manifest', 'model', 'optim', 'schema', "
    "'state']\n"
    "z = f['schema']\n"
    "assert z['class_names'][:].tobytes().decode().split('\\n') == ['cat', 'd\\u00f6g']\n"
    "assert z['columns'][:].tobytes().decode().split('\\n') == ['age', 'height, m', '']\n"
    "assert z['mean'].dtype == z['std'].dtype == '<f4' and len(z['mean']) == len(z['std']) == 3\n"
    "d = dict(l.split(' ', 1) for l in z['description'][:].tobytes().decode().splitlines())\n"
    "assert d['kind'] == 'table' and d['x_shape'] == '3' and d['y_shape'] == 'scalar'\n"
    "assert f['state'].attrs['run_id'] == b'000102030405060708090a0b0c0d0e0f'\n"
    "assert sorted(f['model']) == ['bn.num_batches', 'conv.weight', 'empty', 'fc1.weight', 'ids']\n"
    "w = f['model/fc1.weight'][:]\n"
    "assert w.dtype == '<f4' and w.shape == (2, 3)\n"
    "assert np.array_equal(w, 7 + np.arange(6, dtype='f4').reshape(2, 3) / 8)\n"
    "c = f['model/conv.weight'][:]\n"
    "assert c.shape == (10, 3, 10, 10)\n"
    "assert np.allclose(c.ravel(), np.sin(np.arange(3000) + 7.0), atol=1e-6)\n"
    "assert f['model/conv.weight'].id.get_offset() % 4096 == 0\n"
    "assert f['model/bn.num_batches'][()] == 7 and f['model/bn.num_batches'].shape == ()\n"
    "assert f['model/empty'].shape == (0, 3)\n"
    "h = f['optim/exp_avg/fc1.weight'][:]\n"
    "assert h.dtype == np.float16\n"
    "assert np.array_equal(h.view('u2'), 0x3c00 + 16 * np.arange(5) + 7)\n"
    "assert f['optim/exp_avg_sq/fc1.weight'].dtype == np.uint16\n"
    "assert f['optim/exp_avg/mask'][:].tobytes() == b'abc'\n"
    "assert f['model/ids'][:].tolist() == [-1, 7]\n"
    "assert f['optim'].attrs['kind'] == b'adam' and f['optim'].attrs['t'] == 7\n"
    "s = f['state'].attrs\n"
    "assert s['epoch'] == 1 and s['seed'] == 1234567890123 and s['loss_scale'] == 1024.0\n"
    "assert s['rng'] == b'philox4x32-10' and math.isnan(s['best_metric']) and s['slices'] == 8\n"
    "assert f['data'].attrs['content_id'] == b'c0ffee' and f['data'].attrs['n_samples'] == 60000\n"
    "assert f['config/resolved'][:].tobytes() == b'train.steps = 7\\n'\n"
    "m = f['manifest'][:].tobytes()\n"
    "assert f['manifest'].attrs['sha256'].decode() == hashlib.sha256(m).hexdigest()\n"
    "def crc(b):\n"
    "    r = 0xffffffff\n"
    "    for x in b:\n"
    "        r ^= x\n"
    "        for _ in range(8):\n"
    "            r = (r >> 1) ^ (0x82f63b78 if r & 1 else 0)\n"
    "    return r ^ 0xffffffff\n"
    "lines = m.decode().splitlines()\n"
    "assert len(lines) == 17\n"
    "for i, line in enumerate(lines):\n"
    "    path, dtype, shape, nbytes, sum_ = line.split(' ')\n"
    "    d = f[path]\n"
    "    b = d[()].tobytes()\n"
    "    assert ('x'.join(map(str, d.shape)) or 'scalar') == shape and len(b) == int(nbytes)\n"
    "    assert crc(b) == int(sum_, 16) == d.attrs['crc32c'] and d.attrs['index'] == i\n"
    "    assert d.chunks is None and d.compression is None\n";

static void test_h5py(void **state)
{
    static sample s;
    char *dir = charl_test_tempdir();
    char command[1400], path[600];
    FILE *f;

    (void)state;
    if (system("/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null") != 0) {
        charl_test_tempdir_remove(dir);
        print_message("SKIP: /usr/bin/python3 has no h5py\n");
        skip();
    }
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "check.py"));
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(script, f);
    assert_int_equal(fclose(f), 0);
    sample_init(&s, 7);
    charl_assert_ok(charl_checkpoint_save(charl_test_path(dir, "a.h5"), &s.c));
    snprintf(command, sizeof command, "/usr/bin/python3 '%s' '%s/a.h5'", path, dir);
    assert_int_equal(system(command), 0);
    charl_test_tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_h5py)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
