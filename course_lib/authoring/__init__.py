"""What makes and proves the course, and no learner imports.

In the order to read:

- ``new/``: ``course new``: writes what can be written of an exercise or of a lesson part, and says what is left to do
- ``site/``: ``course site``: the course as pages for reading, made of the solved notebooks, the glossary and README
- ``testing/``: The verb `test`: every check of the course, part by part, with a line and a time for each
- ``bench/``: ``course bench NAME``: measurements that the course claims, each paired with its rivals in one run
- ``programs/``: Programs to take home: the files that several of them share are written from one source each
- ``notebooks/``: The builder: a lesson's source becomes the notebook for doing and the executed one for reading
- ``pictures/``: The pictures of the lessons, as code that draws them; what it draws lies in ``assets/NN_name.png``
- ``wheel/``: What a wheel holds besides the library: ``files.py`` says which files, ``build_py.py`` has setuptools take
  them
"""
